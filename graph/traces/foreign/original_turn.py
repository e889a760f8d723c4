"""Makes a turn of what the original AgentFlow kept of one of its steps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from graph.plain import plain_text
from graph.records import Command, Fault, Observation, Plan, Turn
from graph.traces.foreign.original_command import read_calls
from graph.traces.foreign.original_output import read_command, read_failure, read_next_step, read_verdict
from graph.traces.foreign.values import as_content, text_of

_FAULT_CHARS: Final = 500
_UNMATCHED = "No matched tool given"
"""How its planner's parser begins the name of a tool that is not there."""
_NO_COMMAND = frozenset(
    {
        "No command found.",
        "Invalid response type.",
        "No command was generated because the tool was not found.",
        "Not command is generated due to the tool not found.",
    }
)
"""What it keeps in place of a command where there was none."""
_TIMEOUT = re.compile(r"Execution timed out after [\d.]+ seconds")
_ERROR = re.compile(
    r"Error in execute_tool_command: |No execution captured from block: |Google Search tried \d+ times but failed\."
)


@dataclass(frozen=True)
class Step:
    """One step of the original, as its file holds it; None where it does not."""

    action: Mapping[str, Any]
    """Its entry in the memory."""
    result: Any
    planner: str | None
    executor: str | None
    verifier: str | None


def read_turn(step: Step) -> Turn:
    """Return the step as a turn."""
    faults: list[Fault] = []
    plan = _plan(step, faults)
    command, observations = (None, ()) if plan is None else _act(step, plan.tool, faults)
    return Turn(
        plan=plan,
        command=command,
        observations=observations,
        verdict=read_verdict(step.verifier) if step.verifier else None,
        faults=tuple(faults),
    )


def _plan(step: Step, faults: list[Fault]) -> Plan | None:
    written = read_next_step(step.planner) if step.planner else None
    tool = text_of(step.action.get("tool_name")) or (written.tool_name if written and not step.action else None)
    if tool is None or tool.startswith(_UNMATCHED):
        told = [part for part in (tool, text_of(step.action.get("result"))) if part]
        message = ": ".join(told) or "The plan could not be read."
        faults.append(Fault(module="planner", message=message, output=(step.planner or "")[:_FAULT_CHARS]))
        return None
    sub_goal = text_of(step.action.get("sub_goal")) or (written.sub_goal if written else "")
    return Plan(
        justification=written.justification.strip() if written else "",
        context=written.context.strip() if written else "",
        sub_goal=sub_goal,
        tool=tool,
    )


def _act(step: Step, tool: str, faults: list[Fault]) -> tuple[Command | None, tuple[Observation, ...]]:
    text = text_of(step.action.get("command")) or (read_command(step.executor) if step.executor else None)
    calls = read_calls(text) if text and text not in _NO_COMMAND else ()
    if text in _NO_COMMAND:
        faults.append(Fault(module="executor", message=str(text), output=(step.executor or "")[:_FAULT_CHARS]))
    if step.result is None:
        results: Sequence[Any] = ()
    else:
        results = step.result if isinstance(step.result, list) else [step.result]
    if calls and step.result == []:
        # Its parser of commands passes over what it does not know, and then nothing is run.
        faults.append(Fault(module="executor", message="No call of the tool was run.", output=str(text)[:_FAULT_CHARS]))
    paired = calls if len(calls) == len(results) else [_whole(text)] * len(results)
    observations = tuple(
        Observation(tool=tool, arguments=arguments, status=_status(result), content=as_content(result))
        for arguments, result in zip(paired, results, strict=True)
    )
    return (Command(tool=tool, calls=calls) if calls else None), observations


def _whole(text: str | None) -> dict[str, Any]:
    return {"command": plain_text(text)} if text and text not in _NO_COMMAND else {}


def _status(result: Any) -> Literal["ok", "error", "timeout"]:
    """Return what the forms that its executor and tools have for failures say; any other result is fine."""
    told = result if isinstance(result, str) else read_failure(result)
    if told is None:
        return "ok"
    if _TIMEOUT.fullmatch(told):
        return "timeout"
    return "error" if isinstance(result, Mapping) or _ERROR.match(told) else "ok"
