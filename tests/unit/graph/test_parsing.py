"""What is read from a model's free text, and what is never guessed from it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.errors import FormatError
from graph.nodes.executor import read_command
from graph.nodes.planner import read_plan
from graph.parsing import parse, parse_calls
from graph.records import Answer, Plan, QueryAnalysis, Verdict
from graph.state import ToolDescription

PLAN = {"justification": "j", "context": "2**10", "sub_goal": "compute 2**10", "tool": "python"}
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "wait": {"type": "number"}}}
NOTE = ToolDescription(name="note", description="d", arguments=SCHEMA)
PYTHON = ToolDescription(name="python", description="d", code_argument="code")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PLAN),
        json.dumps(PLAN, indent=2),
        f"```json\n{json.dumps(PLAN)}\n```",
        f"Sure, here it is:\n```\n{json.dumps(PLAN)}\n```\nGood luck!",
        json.dumps(PLAN)[:-1] + ",}",
        json.dumps(PLAN)[:-1],
        f"<think>Maybe {{}} or {json.dumps(PLAN | {'sub_goal': 'wrong'})}?</think>{json.dumps(PLAN)}",
        f"the template opened the thought </think>\n\n{json.dumps(PLAN)}",
        f"<thinking>hm</thinking>```json\n{json.dumps(PLAN)[:-1]},}}\n```",
        json.dumps({"plan": PLAN}),
        json.dumps([PLAN]),
        json.dumps({"Justification": "j", "CONTEXT": "2**10", "Sub-Goal": "compute 2**10", "tool name": "python"}),
        str(PLAN),
        f"The set {{1, 2}} and f(x) = {{x}}. {json.dumps(PLAN)}",
        "Justification: j\nContext: 2**10\nSub-Goal: compute 2**10\nTool: python",
        "**Justification:** j\n**Context:** 2**10\n**Sub-Goal:** compute 2**10\n**Tool Name:** python",
        "1. **Justification**: j\n2. **Context**: 2**10\n3. **Sub_Goal**: compute 2**10\n4. **Tool**: python",
        "### Justification\nj\n### Context\n2**10\n### Sub-Goal\ncompute 2**10\n### Tool\npython",
        "- justification: j\n- context: 2**10\n* sub goal: compute 2**10\n* TOOL: python",
    ],
)
def test_a_plan_is_read_unchanged_in_every_shape(text):
    """Cases 1 and 3."""
    assert parse(text, Plan) == Plan.model_validate(PLAN)


@pytest.mark.parametrize(
    "value", ["2**10", "**kwargs", "a * b ** c", "__init__", "# not a heading", "x_1", "{2*3}", "`a`"]
)
@pytest.mark.parametrize("shape", ["json", "labels", "bold labels"])
def test_markup_in_a_value_is_left_alone(value, shape):
    """Case 1."""
    text = {
        "json": json.dumps({"sub_goal": value, "tool": "python"}),
        "labels": f"Sub-Goal: {value}\nTool: python",
        "bold labels": f"**Sub-Goal:** {value}\n**Tool:** python",
    }[shape]
    assert parse(text, Plan).sub_goal == value


OLD, NEW = json.dumps(PLAN | {"sub_goal": "old"}), json.dumps(PLAN | {"sub_goal": "new"})


@pytest.mark.parametrize(
    "text",
    [
        f"The last result was {OLD}. My plan now: {NEW}",
        f"```json\n{OLD}\n```\nmade no progress, so:\n```json\n{NEW}\n```",
        f"The last result was {OLD}. My plan now: {NEW[:-1]},}}",
        f"The last result was {OLD[:-1]},}}. My plan now: {NEW}",
        f"Over {{1, 2}}, the last was {OLD}. My plan now: {NEW}",
        f'The last result was {OLD}. My plan now: {{"plan": {NEW}}}',
        f'{{"previous": {OLD}, "next": {NEW}}}',
        f'The last result was {OLD}. My plan now: {NEW} It is not {{"sub_goal": "half"}}.',
        f"The last result was {OLD}. My plan now: {NEW} with {{sub_goal}}.",
        f"{NEW}\n<think>Not {OLD}</think>",
        f"<think>{OLD}</think>\n{NEW}",
    ],
)
def test_of_several_plans_the_last_outside_thoughts_counts(text):
    assert parse(text, Plan).sub_goal == "new"


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ('I said {"stop": true}, which was wrong: {"stop": false}', False),
        ('I said {"stop": true}, which was wrong: {"verdict": {"stop": false}}', False),
        ('I said {"stop": false}; now {"stop": true} and not {"stop": "maybe"}', True),
        ('{"stop": false}<think>{"stop": true}</think>', False),
    ],
)
def test_of_several_verdicts_the_last_valid_one_counts(text, stop):
    assert parse(text, Verdict).stop is stop


def test_of_several_lists_of_calls_the_last_counts():
    text = 'Last time: {"calls": [{"text": "old"}]}. Now: {"calls": [{"text": "a"}, {"text": "b"}]}'
    assert parse_calls(text, SCHEMA) == [{"text": "a"}, {"text": "b"}]


@given(sub_goal=TEXT.filter(str.strip), context=TEXT)
def test_any_text_survives_json_and_a_fence(sub_goal, context):
    plan = {"context": context, "sub_goal": sub_goal, "tool": "python"}
    for text in (json.dumps(plan), f"```json\n{json.dumps(plan, ensure_ascii=False)}\n```"):
        read = parse(text, Plan)
        assert (read.sub_goal, read.context) == (sub_goal, context)


@given(st.text(max_size=200))
def test_no_text_breaks_the_readers(text):
    """Whatever a model writes is read or refused with FormatError."""
    for read in (
        lambda: parse(text, Plan),
        lambda: parse(text, Verdict),
        lambda: parse(text, Answer),
        lambda: parse(text, QueryAnalysis),
        lambda: read_plan(text, ["python"]),
        lambda: read_command(text, NOTE),
        lambda: read_command(text, PYTHON),
    ):
        try:
            read().model_dump_json().encode()
        except FormatError as error:
            assert str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    "text",
    [
        "should not stop yet",
        "STOP",
        "I would stop here: true enough.",
        "Do not continue; the answer is complete. Stop.",
        "Stop: not yet",
        "Conclusion: STOP",
        "Conclusion: true",
        '{"stop": null}',
        '{"stop": "maybe"}',
        '{"analysis": "stop"}',
        '{"analysis": "x"}',
        "",
        "```json\n```",
        "{",
        "[]",
    ],
)
def test_prose_is_never_a_verdict(text):
    """Case 4: what cannot be read means: go on."""
    with pytest.raises(FormatError):
        parse(text, Verdict)


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ('```json\n{"stop": false}\n```', False),
        ('```\n{"analysis": "we should stop", "stop": false,}\n```', False),
        ("{'analysis': 'it says {\"stop\": true}', 'stop': False}", False),
        ('<think>{"stop": true}</think>{"stop": false}', False),
        ('{"stop": "false"}', False),
        ('{"stop": "no"}', False),
        ('{"Stop Signal": true}', True),
        ("Analysis: all there\nStop: True", True),
        ('{"verdict": {"analysis": "x", "stop": true}}', True),
        ('{"analysis": "He said \\"{stop}\\" ", "stop": true', True),
    ],
)
def test_a_verdict_is_read_where_it_stands(text, stop):
    """Case 4."""
    assert parse(text, Verdict).stop is stop


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"solution": "s", "answer": 42}', "42"),
        ('{"answer": "42"}', "42"),
        ('{"solution": null, "answer": 36.5}', "36.5"),
        ('{"answer": ["Paris", "Rome"]}', "Paris, Rome"),
        ('{"answer": true}', "true"),
        ('{"answer": 100000000000000000000000000}', "100000000000000000000000000"),
        ('{"final_answer": "42"}', "42"),
        ("Solution: because\nFinal Answer: **42**", "**42**"),
    ],
)
def test_an_answer_may_be_written_as_a_number_or_a_list(text, expected):
    assert parse(text, Answer).answer == expected


def test_lists_of_words_may_be_written_as_text():
    assert parse('{"summary": "s", "tools": "python, search"}', QueryAnalysis).tools == ("python", "search")
    assert parse("Summary: s\nTools: python, search", QueryAnalysis).tools == ("python", "search")


def test_half_a_surrogate_pair_and_nul_do_not_enter_the_records():
    plan = parse('{"sub_goal": "a\\ud83d b\\u0000 \\ud83d\\ude00", "tool": "python"}', Plan)
    assert plan.sub_goal == "a\ufffd b \U0001f600"
    assert parse_calls('{"calls": [{"text": "\\udc00"}]}', SCHEMA) == [{"text": "\ufffd"}]


@pytest.mark.parametrize(
    "text",
    [
        '{"calls": [{"text": "a", "wait": "2"}]}',
        '{"calls":\n[\n{"text":\n"a",\n\n"wait":\n"2"\n}\n]\n}',
        '{"calls": {"text": "a", "wait": "2"}}',
        '{"text": "a", "wait": "2"}',
        '{"arguments": {"text": "a", "wait": "2"}}',
        '{"calls": [{"name": "note", "arguments": {"text": "a", "wait": "2"}}]}',
        '{"calls": [{"name": "note", "arguments": "{\\"text\\": \\"a\\", \\"wait\\": \\"2\\"}"}]}',
        '<tool_call>\n{"name": "note", "parameters": {"text": "a", "wait": "2"}}\n</tool_call>',
        '```json\n{"calls": [{"text": "a", "wait": "2",},]}\n```',
        '{"calls": [{"text": "a", "wait": "2"}',
        "text: a\nwait: 2",
    ],
)
def test_one_call_in_every_shape(text):
    """Case 6."""
    assert parse_calls(text, SCHEMA) == [{"text": "a", "wait": "2"}]


@pytest.mark.parametrize(
    "text",
    [
        '{"calls": [{"text": "a"}, {"text": "b"}]}',
        '[{"text": "a"}, {"text": "b"}]',
        '{"text": "a"}\n{"text": "b"}',
        '<tool_call>{"name": "note", "arguments": {"text": "a"}}</tool_call>\n'
        '<tool_call>{"name": "note", "arguments": {"text": "b"}}</tool_call>',
        '{"calls": [{"text": "a"}, {"text": "b"},]}',
    ],
)
def test_several_calls_in_every_shape(text):
    assert parse_calls(text, SCHEMA) == [{"text": "a"}, {"text": "b"}]


@pytest.mark.parametrize("text", ["", "Call note with a.", "note(text='a')", '{"calls": ["a"]}', '{"other": 1}'])
def test_a_call_that_cannot_be_read_names_the_shape(text):
    with pytest.raises(FormatError, match=r'"calls".*"text"'):
        parse_calls(text, SCHEMA)


def test_wrong_argument_names_reach_the_tool_which_says_what_it_takes():
    assert read_command('{"calls": [{"txt": "a"}]}', NOTE).calls == ({"txt": "a"},)


def test_a_command_has_one_to_four_calls():
    with pytest.raises(FormatError, match="no call"):
        read_command('{"calls": []}', NOTE)
    assert len(read_command(json.dumps({"calls": [{"text": str(i)} for i in range(9)]}), NOTE).calls) == 4


def test_numbers_beyond_64_bits_stay_exact_as_text():
    assert parse_calls(f'{{"text": "a", "wait": {10**30}}}', SCHEMA) == [{"text": "a", "wait": str(10**30)}]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```",
        "print(1)",
        '{"calls": [{"code": "print(1)"}]}',
        '```json\n{"calls": [{"code": "print(1)"}]}\n```',
        '{"code": "print(1)"}',
        '{"name": "python", "arguments": {"code": "print(1)"}}',
    ],
)
def test_code_is_read_from_a_block_and_from_json(text):
    assert read_command(text, PYTHON).calls == ({"code": "print(1)"},)


@pytest.mark.parametrize("code", ["{n: n ** 2 for n in range(3)}", "[1, 2]", '{"code": 1}', '{"a": {"b": 2}}'])
def test_code_that_looks_like_json_is_code(code):
    assert read_command(f"```python\n{code}\n```", PYTHON).calls == ({"code": code},)


def test_a_plan_needs_a_sub_goal_and_an_offered_tool():
    with pytest.raises(FormatError, match=r"no tool 'cook'. Choose one of: python, note"):
        read_plan('{"sub_goal": "x", "tool": "cook"}', ["python", "note"])
    with pytest.raises(FormatError, match="sub-goal was empty"):
        read_plan('{"sub_goal": " ", "tool": "python"}', ["python"])
    with pytest.raises(FormatError, match="sub_goal"):
        read_plan('{"tool": "python"}', ["python"])


@pytest.mark.parametrize("filler", ["\n", " \n", "- ", "1. ", "> \n", "#", "* ", "**", "_", "tool", "sub ", "sub\n"])
def test_long_output_without_meaning_is_read_in_one_pass(filler):
    """What a model writes that has lost its way: quadratic patterns took minutes for it."""
    with pytest.raises(FormatError):
        parse(filler * (200_000 // len(filler)), Plan)
