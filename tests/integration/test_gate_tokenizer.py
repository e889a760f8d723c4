"""The gate against real tokenizers and chat templates: what a model's server records passes, and any other is found."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graph.errors import ConfigError
from graph.prompt import Message, hash_messages
from graph.trace import Trajectory
from tests.command import Workplace
from tests.gate_traces import SAMPLING, sound_group
from training.gate.kind import Kind
from training.gate.tokenizer import TokenizerCheck

pytest.importorskip("transformers", reason="needs the train extra")

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLANS = ["Search the corpus for it.", "Wie weit ist es nach Köln? 🙂", "  two\n\nlines  ", ""]


@pytest.fixture(scope="session")
def tokenizer(tiny_model: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model, local_files_only=True)


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the same make, with a smaller vocabulary."""
    from tests.tiny_model import build_tiny_model

    return build_tiny_model(tmp_path_factory.mktemp("models") / "other", vocab_size=600)


@pytest.fixture
def traces(tokenizer: "PreTrainedTokenizerBase") -> list[Trajectory]:
    """A group as a server of the tiny model would record it."""
    return [recorded(trajectory, tokenizer) for trajectory in sound_group(rewards=[1.0, 0.0, 1.0, 0.0])]


def recorded(trajectory: Trajectory, tokenizer: "PreTrainedTokenizerBase") -> Trajectory:
    calls = []
    for index, call in enumerate(trajectory.calls):
        if call.role == "planner":
            text = PLANS[(index + int(trajectory.id[-1])) % len(PLANS)]
            messages = (
                Message(role="system", content="You plan. Tools: a, b."),
                Message(role="user", content=f"{trajectory.question} “{index}” <|im_end|>\n"),
            )
            ids = (*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id)
            update = {
                "messages": messages,
                "prompt_hash": hash_messages(messages),
                "prompt_ids": template_ids(tokenizer, messages),
                "completion_ids": ids,
                "logprobs": tuple(-0.5 for _ in ids),
                "text": text,
            }
            call = call.model_copy(update=update)
        calls.append(call)
    return trajectory.model_copy(update={"calls": tuple(calls)})


def template_ids(tokenizer: "PreTrainedTokenizerBase", messages: Sequence[Message], **kwargs: Any) -> tuple[int, ...]:
    given: Any = [dict(message) for message in messages]
    ids: Any = tokenizer.apply_chat_template(given, add_generation_prompt=True, return_dict=False, **kwargs)
    return tuple(ids)


def found(check: TokenizerCheck, traces: Sequence[Trajectory], **update: Any) -> set[Kind]:
    """What a check says of all planner calls, the last of them changed."""
    calls = [call for trajectory in traces for call in trajectory.calls_of("planner")]
    calls[-1] = calls[-1].model_copy(update=update)
    return {kind for call in calls for kind in check.problems(call)}


def test_what_the_models_server_records_passes(tiny_model: Path, traces: list[Trajectory]) -> None:
    check = TokenizerCheck(str(tiny_model))
    assert found(check, traces) == set()
    assert (check.prompts, check.same_prompts, check.texts, check.same_texts) == (8, 8, 8, 8)


def test_ids_that_encoding_would_not_give_back_are_as_good(
    tiny_model: Path, tokenizer: "PreTrainedTokenizerBase", traces: list[Trajectory]
) -> None:
    whole = tokenizer.encode("planner", add_special_tokens=False)
    pieces = [token for part in ("pl", "ann", "er") for token in tokenizer.encode(part, add_special_tokens=False)]
    assert len(pieces) > len(whole)
    assert tokenizer.decode(pieces) == tokenizer.decode(whole) == "planner"
    update = {"completion_ids": tuple(pieces), "logprobs": tuple(-0.5 for _ in pieces), "text": "planner"}
    assert found(TokenizerCheck(str(tiny_model)), traces, **update) == set()


@pytest.mark.parametrize(
    ("text", "recorded_text"),
    [
        ("<think>It is far.</think>\n\nGo there.", "Go there."),
        ("It is far.</think>Go there.", "It is far.</think>Go there."),
        ("\n plan \n", "plan"),
        ("a\x00b", "ab"),
    ],
)
def test_a_text_is_the_same_without_what_a_server_takes_off(
    tiny_model: Path, tokenizer: "PreTrainedTokenizerBase", traces: list[Trajectory], text: str, recorded_text: str
) -> None:
    ids = tuple(tokenizer.encode(text, add_special_tokens=False))
    check = TokenizerCheck(str(tiny_model))
    assert found(check, traces, completion_ids=ids, text=recorded_text) == set()
    assert found(check, traces, completion_ids=ids, text=recorded_text + " Now.") == {Kind.TEXT}


def test_a_character_that_was_cut_in_half_is_no_difference(
    tiny_model: Path, tokenizer: "PreTrainedTokenizerBase", traces: list[Trajectory]
) -> None:
    ids = tokenizer.encode("far 🙂", add_special_tokens=False)
    assert tokenizer.decode(ids[:-1]).endswith("\ufffd")
    assert found(TokenizerCheck(str(tiny_model)), traces, completion_ids=tuple(ids[:-1]), text="far ") == set()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda call: {"prompt_ids": call.prompt_ids[:-1]}, Kind.TEMPLATE),
        (lambda call: {"messages": call.messages[:1]}, Kind.TEMPLATE),
        (lambda call: {"completion_ids": call.completion_ids[:2]}, Kind.TEXT),
        (lambda call: {"completion_ids": (*call.completion_ids, 1024)}, Kind.VOCABULARY),
        (lambda call: {"completion_ids": (*call.completion_ids, -1)}, Kind.VOCABULARY),
    ],
)
def test_a_call_that_was_changed_is_found(
    tiny_model: Path, traces: list[Trajectory], change: Callable[[Any], dict[str, Any]], kind: Kind
) -> None:
    call = traces[2].calls_of("planner")[-1]
    assert len(call.completion_ids or ()) > 3
    assert found(TokenizerCheck(str(tiny_model)), traces[:3], **change(call)) == {kind}


def test_settings_of_the_template_that_were_sent_are_used(
    tiny_model: Path, tokenizer: "PreTrainedTokenizerBase", traces: list[Trajectory], tmp_path: Path
) -> None:
    model = with_template(tiny_model, tmp_path, lambda text: text + "{% if quiet %}<think></think>{% endif %}")
    from transformers import AutoTokenizer

    changed = AutoTokenizer.from_pretrained(model, local_files_only=True)
    messages = traces[-1].calls_of("planner")[-1].messages or ()
    quiet = template_ids(changed, messages, quiet=True)
    assert quiet != template_ids(changed, messages)
    extra = {"chat_template_kwargs": {"quiet": True}}
    check = TokenizerCheck(str(model))
    assert found(check, traces, prompt_ids=quiet, sampling=SAMPLING | {"extra": extra}) == set()
    assert found(check, traces, prompt_ids=quiet) == {Kind.TEMPLATE}


def with_template(model: Path, directory: Path, change: Callable[[str], str]) -> Path:
    """A copy of a model with another chat template."""
    copy = directory / "changed"
    shutil.copytree(model, copy)
    template = copy / "chat_template.jinja"
    template.write_text(change(template.read_text("utf-8")), "utf-8")
    return copy


def test_the_command_counts_what_matches_and_takes_the_rest_out_of_exact(
    tiny_model: Path, other_model: Path, traces: list[Trajectory], tmp_path: Path
) -> None:
    place = Workplace(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "t.jsonl").write_text("".join(trajectory.model_dump_json() + "\n" for trajectory in traces), "utf-8")

    def report(model: Path) -> dict[str, Any]:
        printed: dict[str, Any] = json.loads(
            place.call("traces", "validate", "-f", "t.jsonl", "--model", str(model), "--json")
        )
        return printed

    same = report(tiny_model)
    assert (same["exact"], same["problems"]) == (4, [])
    assert same["tokenizer"] == {
        "model": str(tiny_model), "prompts": 8, "same_prompts": 8, "texts": 8, "same_texts": 8
    }  # fmt: skip
    assert not any("Tokenizer" in sentence for sentence in same["not_checked"])

    dated = report(with_template(tiny_model, tmp_path, lambda text: "Today is {{ strftime_now('%Y') }}." + text))
    assert (dated["exact"], dated["tokenizer"]["same_prompts"], dated["tokenizer"]["same_texts"]) == (0, 0, 8)
    assert {problem["kind"]: problem["count"] for problem in dated["problems"]} == {"template": 4}

    other = report(other_model)
    assert other["exact"] == 0
    assert {problem["kind"] for problem in other["problems"]} == {"template", "vocabulary", "text"}


def test_a_template_that_refuses_the_messages_does_not_match(
    tiny_model: Path, traces: list[Trajectory], tmp_path: Path
) -> None:
    refusing = with_template(tiny_model, tmp_path, lambda _: "{{ raise_exception('no system message') }}")
    assert found(TokenizerCheck(str(refusing)), traces) == {Kind.TEMPLATE}


def test_a_model_without_tokenizer_or_template_is_refused_in_a_sentence(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"No tokenizer can be loaded from nobody/nothing .*: give --model the directory"
    ):
        TokenizerCheck("nobody/nothing")
    with pytest.raises(ConfigError, match="No tokenizer can be loaded"):
        TokenizerCheck(str(tmp_path))
    bare = with_template(tiny_model, tmp_path, lambda text: text)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="has no chat template: give --model the instruct model"):
        TokenizerCheck(str(bare))


def test_a_tokenizer_stands_without_its_model(tiny_model: Path, traces: list[Trajectory], tmp_path: Path) -> None:
    alone = with_template(tiny_model, tmp_path, lambda text: text)
    for file in alone.glob("*"):
        if not file.name.startswith(("tokenizer", "chat_template")):
            file.unlink()
    assert found(TokenizerCheck(str(alone)), traces) == set()
