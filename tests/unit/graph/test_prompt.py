"""Prompt files are rendered strictly."""

import re

import pytest

from graph.config import ROLES
from graph.errors import ConfigError
from graph.prompt import Prompt, hash_messages, load_prompt

BUILT_IN = ["generate", "python", "search_corpus", "wikipedia", "web_search", "read_page"]


@pytest.mark.parametrize("role", ROLES)
def test_every_role_has_a_prompt_with_a_stable_digest(role):
    prompt = load_prompt(role)
    assert re.fullmatch(r"[0-9a-f]{16}", prompt.digest)
    assert {section.kind for section in prompt.sections} >= {"system", "final"}


@pytest.mark.parametrize("role", ["analyzer", "planner", "verifier", "generator"])
def test_modules_have_three_to_five_examples_in_chat_turns(role):
    examples = load_prompt(role).examples(BUILT_IN)
    assert 3 <= len(examples) / 2 <= 5
    assert [message["role"] for message in examples] == ["user", "assistant"] * (len(examples) // 2)


@pytest.mark.parametrize("role", ["analyzer", "planner"])
def test_examples_name_only_offered_tools(role):
    """An example with a tool that is not there would teach its name."""
    for offered in (["python"], ["search_corpus"], ["generate"], []):
        text = " ".join(message["content"] for message in load_prompt(role).examples(offered))
        for tool in set(BUILT_IN) - set(offered):
            assert f'"{tool}"' not in text


def test_a_missing_and_an_unused_variable_are_errors():
    prompt = load_prompt("verifier")
    with pytest.raises(ConfigError, match="memory"):
        prompt.final({"question": "q"})
    with pytest.raises(ConfigError, match="extra"):
        prompt.final({"question": "q", "memory": "m", "extra": "e"})
    with pytest.raises(ConfigError, match="no section"):
        prompt.system({}, variant="nowhere")


@pytest.mark.parametrize("value", ["$question", "${memory}", "$$", "costs $5", "{memory}", "%s", "\\1"])
def test_values_are_never_rendered_again(value):
    message = load_prompt("verifier").final({"question": value, "memory": "m"})
    assert f"Question: {value}\n" in message["content"]


def test_the_hash_depends_on_every_part_and_on_nothing_else():
    messages = [{"role": "system", "content": "ü"}, {"role": "user", "content": "q"}]
    assert hash_messages(messages) == hash_messages([{"content": "ü", "role": "system"}, messages[1]])
    assert hash_messages(messages) != hash_messages(messages[::-1])
    assert hash_messages(messages) != hash_messages([{"role": "system", "content": "u"}, messages[1]])


def test_a_prompt_without_its_sections_says_so():
    with pytest.raises(ConfigError, match=r"x\.md has no section '## system'"):
        Prompt("x", (), "0").system({})
