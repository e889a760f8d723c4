"""The messages of every module's call."""

import json
from itertools import combinations

import pytest

from graph.records import Command, Exchange, Fault, Observation, Plan, QueryAnalysis, Turn, Verdict
from graph.rendering import describe_arguments, messages_for, standalone_question
from graph.state import FlowState, Request, Setup, ToolDescription
from graph.tools import python, read_page, search_corpus, web_search, wikipedia
from graph.tools.registry import Toolbox
from graph.tools.settings import (
    CorpusSettings,
    PythonSettings,
    ReadPageSettings,
    WebSearchSettings,
    WikipediaSettings,
)

NOTE = ToolDescription(
    name="note",
    description="Notes a text.",
    limits="Only short ones.",
    best_practice="Be brief.",
    arguments={"properties": {"text": {"type": "string", "description": "what to note."}}, "required": ["text"]},
    examples=(("Note a word", {"text": "ü"}),),
)
PYTHON = ToolDescription(
    name="python", description="Runs code.", code_argument="code", examples=(("Add", {"code": "print(1 + 1)"}),)
)
TURN = Turn(
    plan=Plan(sub_goal="note it", tool="note", context="the word"),
    command=Command(tool="note", calls=({"text": "a"},)),
    observations=(Observation(tool="note", arguments={"text": "a"}, status="ok", content="noted a"),),
    verdict=Verdict(analysis="more is needed", stop=False),
)


def make_state(*turns: Turn, **fields) -> FlowState:
    state: FlowState = {
        "request": Request(question="And of Rome?", history=fields.pop("history", ())),
        "setup": Setup(tools=(NOTE, PYTHON), max_turns=4),
        "turns": list(turns),
    }
    return state | fields


@pytest.mark.parametrize("role", ["analyzer", "planner", "verifier", "generator", "executor"])
def test_what_never_changes_comes_first(role):
    """Two turns' prompts share everything up to the question and memory: servers reuse what they computed."""
    state = make_state(TURN, TURN, analysis=[QueryAnalysis(summary="s")])
    first, second = messages_for(role, state, 0), messages_for(role, state, 1)
    assert first[0]["role"] == "system"
    assert first[:-1] == second[:-1]
    assert first[-1]["role"] == "user"


def test_a_call_sees_the_memory_as_it_was():
    """What came later does not change how an earlier prompt is rendered."""
    early = make_state(TURN.model_copy(update={"verdict": None}))
    late = make_state(TURN, TURN, Turn(faults=(Fault(module="planner", message="m"),)))
    for role in ("planner", "executor", "verifier"):
        assert messages_for(role, early, 0) == messages_for(role, late, 0)
    assert "(empty)" in messages_for("planner", late, 0)[-1]["content"]
    assert "Turn 1" in messages_for("planner", late, 1)[-1]["content"]
    assert "Turn 2" not in messages_for("planner", late, 1)[-1]["content"]


def test_a_verifier_never_sees_its_own_verdict_or_fault():
    turn = TURN.model_copy(update={"faults": (Fault(module="verifier", message="unreadable"),)})
    text = messages_for("verifier", make_state(turn), 0)[-1]["content"]
    assert "more is needed" not in text
    assert "unreadable" not in text
    assert "more is needed" in messages_for("planner", make_state(turn), 1)[-1]["content"]


def test_all_modules_work_on_the_standalone_question():
    history = (Exchange(question="What is the population of Paris?", answer="2.1 million"),)
    analysis = [QueryAnalysis(summary="s", question="What is the population of Rome?")]
    state = make_state(TURN, history=history, analysis=analysis)
    assert standalone_question(state) == "What is the population of Rome?"
    for role in ("planner", "verifier", "generator"):
        text = messages_for(role, state, 0)[-1]["content"]
        assert "Question: What is the population of Rome?" in text
        assert "Paris" not in text
    analyzer = messages_for("analyzer", state, -1)[-1]["content"]
    assert "What is the population of Paris?" in analyzer
    assert "2.1 million" in analyzer
    assert "Question: And of Rome?" in analyzer


def test_long_histories_keep_the_latest_exchanges():
    history = tuple(Exchange(question=f"Question {i}? " + "q" * 400, answer="a" * 400) for i in range(20))
    text = messages_for("analyzer", make_state(history=history), -1)[-1]["content"]
    assert "Question 19?" in text
    assert "Question 0?" not in text
    assert len(text) < 2500


def test_turns_left_count_down():
    state = make_state(TURN, TURN)
    assert [messages_for("planner", state, turn)[-1]["content"].split("Turns left: ")[1] for turn in (0, 1, 2)] == [
        "4",
        "3",
        "2",
    ]


def test_the_executor_sees_its_tools_card_arguments_and_examples():
    messages = messages_for("executor", make_state(TURN), 0)
    for part in ("note", "Notes a text.", "Only short ones.", "Be brief.", "text (string, required): what to note."):
        assert part in messages[0]["content"]
    assert json.loads(messages[2]["content"]) == {"calls": [{"text": "ü"}]}
    assert "note it" in messages[-1]["content"]
    assert "the word" in messages[-1]["content"]


def test_a_code_tools_examples_are_code_blocks():
    turn = Turn(plan=Plan(sub_goal="add", tool="python"))
    messages = messages_for("executor", make_state(turn), 0)
    assert messages[2]["content"] == "```python\nprint(1 + 1)\n```"
    assert "Context: (none)" in messages[-1]["content"]


def test_a_role_without_prompts_is_a_programming_error():
    with pytest.raises(KeyError):
        messages_for("nobody", make_state(), 0)


def test_arguments_on_one_line():
    schema = {
        "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "b": {}, "c": {"type": "array"}},
        "required": ["c"],
    }
    expected = "a (integer/null, optional); b (any, optional); c (array, required)."
    assert describe_arguments(schema) == expected
    assert describe_arguments({}) == "none."


BUILT_IN = Toolbox(
    {
        "python": python.build(PythonSettings()),
        "search_corpus": search_corpus.build(CorpusSettings()),
        "wikipedia": wikipedia.build(WikipediaSettings()),
        "read_page": read_page.build(ReadPageSettings()),
        "web_search": web_search.build(WebSearchSettings()),
    }
).describe()


@pytest.mark.parametrize("role", ["analyzer", "planner"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_whatever_tools_are_offered_there_are_examples_of_them(role, size):
    for offered in combinations(BUILT_IN, size):
        state = FlowState(request=Request(question="What?"), setup=Setup(tools=offered))
        examples = [m["content"] for m in messages_for(role, state, 0) if m["role"] == "assistant"]
        assert 2 <= len(examples) <= 5
        names = {tool.name for tool in offered}
        for example in map(json.loads, examples):
            assert {example["tool"]} <= names if role == "planner" else set(example["tools"]) <= names
