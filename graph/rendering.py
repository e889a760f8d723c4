"""The messages of every module's call, as a pure function of the state.

Nodes send them and traces render them again: prompts are never stored.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graph.memory import cut, render_memory
from graph.prompt import Message, Prompt, load_prompt
from graph.records import Exchange, Plan, QueryAnalysis, Turn
from graph.state import FlowState, Setup, ToolDescription

_FEWEST_EXAMPLES = 3
_HISTORY_CHARS = 1_500
_EXCHANGE_CHARS = 300


def messages_for(role: str, state: FlowState, turn: int) -> list[Message]:
    """Return what `role` is sent in turn `turn` (0-based), whatever the state came to hold after that call.

    Raises:
        KeyError: `role` is not one of the flow's modules.
    """
    match role:
        case "analyzer":
            return _analyzer(state)
        case "planner":
            return _planner(state, turn)
        case "executor":
            return _executor(state, turn)
        case "verifier":
            return _verifier(state, turn)
        case "generator":
            return _generator(state)
    raise KeyError(role)


def generate_messages(query: str) -> list[Message]:
    """Return what the `generate` tool sends for `query`."""
    prompt = load_prompt("generate")
    return [prompt.system({}), prompt.final({"query": query})]


def standalone_question(state: FlowState) -> str:
    """Return the question that the modules work on: a follow-up as the analyzer rewrote it."""
    analysis = _analysis(state)
    return (analysis and analysis.question) or state["request"].question


def describe_tools(tools: Sequence[ToolDescription]) -> str:
    """Return one line per tool, as the planner and the analyzer see it."""
    return "\n".join(f"- {tool.name}: {tool.description} {tool.limits}".rstrip() for tool in tools)


def _analysis(state: FlowState) -> QueryAnalysis | None:
    found = state.get("analysis")
    return found[0] if found else None


def _names(setup: Setup) -> list[str]:
    return [tool.name for tool in setup.tools]


def _analyzer(state: FlowState) -> list[Message]:
    prompt, setup, request = load_prompt("analyzer"), state["setup"], state["request"]
    variables = {"question": request.question}
    if request.history:
        variables["history"] = _render_history(request.history)
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


def _planner(state: FlowState, turn: int) -> list[Message]:
    prompt, setup = load_prompt("planner"), state["setup"]
    analysis = _analysis(state)
    notes = [analysis.summary, analysis.considerations] if analysis else []
    if analysis and analysis.tools:
        notes.append(f"Useful tools: {', '.join(analysis.tools)}")
    variables = {
        "question": standalone_question(state),
        "analysis": ". ".join(note.rstrip(".") for note in notes if note) or "(none)",
        "memory": render_memory(state.get("turns", [])[:turn], setup.memory_chars),
        "turns_left": str(setup.max_turns - turn),
    }
    return [
        prompt.system({"tools": describe_tools(setup.tools)}),
        *prompt.examples(_names(setup)),
        *_more_examples(prompt, setup, _planner_example),
        prompt.final(variables),
    ]


def _executor(state: FlowState, turn: int) -> list[Message]:
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
    return [*messages, _executor_task(standalone_question(state), plan)]


def _executor_task(question: str, plan: Plan) -> Message:
    variables = {"question": question, "sub_goal": plan.sub_goal, "context": plan.context or "(none)"}
    return load_prompt("executor").final(variables)


def _executor_example(tool: ToolDescription, arguments: Mapping[str, Any]) -> Message:
    if tool.code_argument:
        content = f"```python\n{arguments[tool.code_argument]}\n```"
    else:
        content = _json({"calls": [arguments]})
    return Message(role="assistant", content=content)


def _verifier(state: FlowState, turn: int) -> list[Message]:
    prompt, setup = load_prompt("verifier"), state["setup"]
    turns = [*state["turns"][:turn], _before_verdict(state["turns"][turn])]
    variables = {"question": standalone_question(state), "memory": render_memory(turns, setup.memory_chars)}
    return [prompt.system({}), *prompt.examples(_names(setup)), prompt.final(variables)]


def _before_verdict(turn: Turn) -> Turn:
    faults = tuple(fault for fault in turn.faults if fault.module != "verifier")
    return turn.model_copy(update={"verdict": None, "faults": faults})


def _generator(state: FlowState) -> list[Message]:
    prompt, setup = load_prompt("generator"), state["setup"]
    memory = render_memory(state.get("turns", []), setup.memory_chars)
    variables = {"question": standalone_question(state), "memory": memory}
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
