"""The messages of every module's call, as a pure function of the state.

Nodes send them and traces render them again: prompts are never stored.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graph.memory import cut, cut_to_weight, render_memory
from graph.prompt import Message, Prompt, load_prompt
from graph.records import Exchange, Plan, QueryAnalysis, Turn
from graph.state import FlowState, Setup, ToolDescription
from graph.weight import weight

_FEWEST_EXAMPLES = 3
_HISTORY_CHARS = 1_500
_EXCHANGE_CHARS = 300


def messages_for(role: str, state: FlowState, turn: int, memory_chars: int | None = None) -> list[Message]:
    """Return what `role` is sent in turn `turn` (0-based), whatever the state came to hold after that call.

    Args:
        role: one of the flow's modules.
        state: of the run.
        turn: 0-based.
        memory_chars: None renders the memory within the run's budget and everything else whole. Otherwise what models
            and tools wrote shares this weight: a plan's sub-goal takes up to half of it and its context the rest, the
            analysis up to a quarter and the memory the rest, memory or history alone all of it. The user's question is
            never cut, what the analyzer made of it only down to the user's length.

    Raises:
        KeyError: `role` is not one of the flow's modules.
    """
    match role:
        case "analyzer":
            return _analyzer(state, memory_chars)
        case "planner":
            return _planner(state, turn, memory_chars)
        case "executor":
            return _executor(state, turn, memory_chars)
        case "verifier":
            return _verifier(state, turn, memory_chars)
        case "generator":
            return _generator(state, memory_chars)
    raise KeyError(role)


def generate_messages(query: str, memory_chars: int | None = None) -> list[Message]:
    """Return what the `generate` tool sends for `query`, cut to a weight of `memory_chars` unless that is None."""
    prompt = load_prompt("generate")
    return [prompt.system({}), prompt.final({"query": _within(query, memory_chars)})]


def standalone_question(state: FlowState, memory_chars: int | None = None) -> str:
    """Return the question that the modules work on: a follow-up as the analyzer rewrote it."""
    asked, analysis = state["request"].question, _analysis(state)
    if analysis is None or not analysis.question:
        return asked
    return analysis.question if memory_chars is None else _within(analysis.question, max(memory_chars, weight(asked)))


def _within(text: str, limit: int | None) -> str:
    return text if limit is None else cut_to_weight(text, limit)


def describe_tools(tools: Sequence[ToolDescription]) -> str:
    """Return one line per tool, as the planner and the analyzer see it."""
    return "\n".join(f"- {tool.name}: {tool.description} {tool.limits}".rstrip() for tool in tools)


def _analysis(state: FlowState) -> QueryAnalysis | None:
    found = state.get("analysis")
    return found[0] if found else None


def _names(setup: Setup) -> list[str]:
    return [tool.name for tool in setup.tools]


def _analyzer(state: FlowState, memory_chars: int | None) -> list[Message]:
    prompt, setup, request = load_prompt("analyzer"), state["setup"], state["request"]
    variables = {"question": request.question}
    if request.history:
        variables["history"] = _within(_render_history(request.history), memory_chars)
    return [
        prompt.system({"tools": describe_tools(setup.tools)}),
        *prompt.examples(_names(setup)),
        *_more_examples(prompt, setup, _analyzer_example),
        prompt.final(variables, variant="history" if request.history else None),
    ]


def _more_examples(
    prompt: Prompt, setup: Setup, make: Callable[[Prompt, ToolDescription, str], list[Message]]
) -> list[Message]:
    """Make up for examples that need tools which are not on offer, from the cards of those that are."""
    wanted = _FEWEST_EXAMPLES - len(prompt.examples(_names(setup))) // 2
    pairs = [(tool, example[0]) for tool in setup.tools for example in tool.examples]
    # Each tool once before any of them twice.
    pairs.sort(key=lambda pair: [example[0] for example in pair[0].examples].index(pair[1]))
    return [message for tool, sub_goal in pairs[: max(0, wanted)] for message in make(prompt, tool, sub_goal)]


def _analyzer_example(prompt: Prompt, tool: ToolDescription, sub_goal: str) -> list[Message]:
    analysis = {"summary": sub_goal, "skills": "", "tools": [tool.name], "considerations": ""}
    return [prompt.final({"question": sub_goal}), Message(role="assistant", content=_json(analysis))]


def _planner_example(prompt: Prompt, tool: ToolDescription, sub_goal: str) -> list[Message]:
    variables = {"question": sub_goal, "analysis": f"Useful tools: {tool.name}", "memory": render_memory([], 0)}
    plan = {"justification": "The tool does this.", "context": "", "sub_goal": sub_goal, "tool": tool.name}
    return [prompt.final(variables | {"turns_left": "10"}), Message(role="assistant", content=_json(plan))]


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _planner(state: FlowState, turn: int, memory_chars: int | None) -> list[Message]:
    prompt, setup = load_prompt("planner"), state["setup"]
    analysis, budget = _render_analysis(_analysis(state)), setup.memory_chars
    if memory_chars is not None:
        analysis = cut_to_weight(analysis, memory_chars // 4)
        budget = memory_chars - weight(analysis)
    variables = {
        "question": standalone_question(state, memory_chars),
        "analysis": analysis,
        "memory": render_memory(state.get("turns", [])[:turn], budget),
        "turns_left": str(setup.max_turns - turn),
    }
    return [
        prompt.system({"tools": describe_tools(setup.tools)}),
        *prompt.examples(_names(setup)),
        *_more_examples(prompt, setup, _planner_example),
        prompt.final(variables),
    ]


def _render_analysis(analysis: QueryAnalysis | None) -> str:
    notes = [analysis.summary, analysis.considerations] if analysis else []
    if analysis and analysis.tools:
        notes.append(f"Useful tools: {', '.join(analysis.tools)}")
    return ". ".join(note.rstrip(".") for note in notes if note) or "(none)"


def _executor(state: FlowState, turn: int, memory_chars: int | None) -> list[Message]:
    prompt, setup = load_prompt("executor"), state["setup"]
    plan = state["turns"][turn].plan
    assert plan is not None, "the executor follows a plan"
    tool = next(tool for tool in setup.tools if tool.name == plan.tool)
    variables = {
        "name": tool.name,
        "description": tool.description,
        "limits": tool.limits,
        "best_practice": tool.best_practice,
    }
    if not tool.code_argument:
        variables["arguments"] = describe_arguments(tool.arguments)
    messages = [prompt.system(variables, variant="code" if tool.code_argument else None)]
    for sub_goal, arguments in tool.examples:
        messages += [
            _executor_task(sub_goal, Plan(sub_goal=sub_goal, tool=tool.name)),
            _executor_example(tool, arguments),
        ]
    if memory_chars is not None:
        sub_goal = cut_to_weight(plan.sub_goal, memory_chars // 2)
        context = cut_to_weight(plan.context, memory_chars - weight(sub_goal))
        plan = plan.model_copy(update={"sub_goal": sub_goal, "context": context})
    return [*messages, _executor_task(standalone_question(state, memory_chars), plan)]


def _executor_task(question: str, plan: Plan) -> Message:
    variables = {"question": question, "sub_goal": plan.sub_goal, "context": plan.context or "(none)"}
    return load_prompt("executor").final(variables)


def _executor_example(tool: ToolDescription, arguments: Mapping[str, Any]) -> Message:
    if tool.code_argument:
        content = f"```python\n{arguments[tool.code_argument]}\n```"
    else:
        content = _json({"calls": [arguments]})
    return Message(role="assistant", content=content)


def _verifier(state: FlowState, turn: int, memory_chars: int | None) -> list[Message]:
    prompt, setup = load_prompt("verifier"), state["setup"]
    turns = [*state["turns"][:turn], _before_verdict(state["turns"][turn])]
    memory = render_memory(turns, memory_chars or setup.memory_chars)
    variables = {"question": standalone_question(state, memory_chars), "memory": memory}
    return [prompt.system({}), *prompt.examples(_names(setup)), prompt.final(variables)]


def _before_verdict(turn: Turn) -> Turn:
    faults = tuple(fault for fault in turn.faults if fault.module != "verifier")
    return turn.model_copy(update={"verdict": None, "faults": faults})


def _generator(state: FlowState, memory_chars: int | None) -> list[Message]:
    prompt, setup = load_prompt("generator"), state["setup"]
    memory = render_memory(state.get("turns", []), memory_chars or setup.memory_chars)
    variables = {"question": standalone_question(state, memory_chars), "memory": memory}
    return [prompt.system({}), *prompt.examples(_names(setup)), prompt.final(variables)]


def _render_history(history: Sequence[Exchange]) -> str:
    """Render the latest exchanges that fit."""
    lines: list[str] = []
    for exchange in reversed(history):
        pair = f"Question: {cut(exchange.question, _EXCHANGE_CHARS)}\nAnswer: {cut(exchange.answer, _EXCHANGE_CHARS)}"
        if sum(map(len, lines)) + len(pair) > _HISTORY_CHARS and lines:
            break
        lines.insert(0, pair)
    return "\n".join(lines)


def describe_arguments(schema: Mapping[str, Any]) -> str:
    """Return a JSON Schema's properties on one line: `query (string, required): what to look for; …`."""
    required = set(schema.get("required", ()))
    parts = []
    for name, field in schema.get("properties", {}).items():
        kind = field.get("type") or "/".join(option.get("type", "any") for option in field.get("anyOf", ())) or "any"
        need = "required" if name in required else "optional"
        text = f"{name} ({kind}, {need})"
        parts.append(f"{text}: {field['description'].rstrip('.')}" if field.get("description") else text)
    return "; ".join(parts) + "." if parts else "none."
