"""A trajectory as the sequence of what was decided and found, to be compared with another one's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from graph.records import Fault, Record, Turn
from graph.trace import Trajectory

Kind = Literal["question", "analysis", "plan", "command", "results", "verdict", "answer", "end"]


@dataclass(frozen=True)
class Step:
    """One step. Two steps at the same place are the same where `decided` is; `worded` may differ still.

    Words can matter later: the executor reads a plan's context, and the planner what a verdict finds missing. What
    they lead to then is another command, or another prompt of the planner.
    """

    kind: Kind
    turn: int
    """From 0; -1 before the first turn and after the last."""
    decided: Any
    """Plain JSON. None: the step is missing."""
    worded: Any = None
    """Plain JSON: the reasons of a plan and what the executor is told of it, a verdict's remark, the solution."""


def steps_of(trajectory: Trajectory) -> Iterator[Step]:
    """Yield the steps in the order of the flow. Every turn has its four, whether or not it came so far."""
    yield Step("question", -1, standalone_question(trajectory))
    yield Step("analysis", -1, _plain(trajectory.analysis))
    for number, turn in enumerate(trajectory.turns):
        yield from _turn_steps(turn, number)
    yield Step("answer", -1, trajectory.answer, trajectory.solution)
    yield Step("end", -1, {"stop": trajectory.stop, "error": trajectory.error})


def standalone_question(trajectory: Trajectory) -> str:
    """Return the question as the modules took it: a follow-up as it was rewritten to stand alone."""
    rewritten = trajectory.analysis.question if trajectory.analysis else None
    return rewritten or trajectory.question


def _turn_steps(turn: Turn, number: int) -> Iterator[Step]:
    plan, command, verdict = turn.plan, turn.command, turn.verdict
    chosen = {"sub_goal": plan.sub_goal, "tool": plan.tool} if plan else _fault(turn, "planner")
    yield Step("plan", number, chosen, plan and {"justification": plan.justification, "context": plan.context})
    calls = {"tool": command.tool, "calls": list(command.calls)} if command else _fault(turn, "executor")
    yield Step("command", number, calls)
    fields = {"tool", "arguments", "status", "content"}
    results = [result.model_dump(mode="json", include=fields) for result in turn.observations]
    yield Step("results", number, results or None)
    judged = {"stop": verdict.stop} if verdict else _fault(turn, "verifier")
    yield Step("verdict", number, judged, verdict and verdict.analysis)


def _fault(turn: Turn, module: str) -> Any:
    faults: list[Fault] = [fault for fault in turn.faults if fault.module == module]
    return {"unusable": [fault.message for fault in faults]} if faults else None


def _plain(record: Record | None) -> Any:
    return record and record.model_dump(mode="json")
