"""The events of a stored run, as they were when it ran."""

from collections.abc import Iterator, Sequence

from graph.events import Event, EventKind
from graph.records import Answer, Fault, Turn
from graph.trace import TracedCall, Trajectory


def replay(trajectory: Trajectory) -> Iterator[Event]:
    """Yield the events of a trajectory in the order of the flow."""
    start = {"id": trajectory.id, "question": trajectory.question, "resumed": False}
    yield Event.of(EventKind.RUN, start)
    for call in trajectory.calls:
        if call.role == "analyzer":
            yield _call(call)
    if trajectory.analysis:
        yield Event.of(EventKind.ANALYSIS, trajectory.analysis)
    for number, turn in enumerate(trajectory.turns):
        yield from _turn(turn, number, [call for call in trajectory.calls if call.turn == number])
    for call in trajectory.calls:
        if call.role == "generator":
            yield _call(call)
    if trajectory.answer is not None:
        yield Event.of(EventKind.ANSWER, Answer(solution=trajectory.solution or "", answer=trajectory.answer))
    end = trajectory.model_dump(mode="json", include={"id", "stop", "answer", "solution", "seconds", "error"})
    yield Event.of(EventKind.DONE, end)


def _turn(turn: Turn, number: int, calls: Sequence[TracedCall]) -> Iterator[Event]:
    yield from _module("planner", turn, number, calls)
    if turn.plan:
        yield Event.of(EventKind.PLAN, turn.plan, turn=number)
    yield from _module("executor", turn, number, calls)
    if turn.command:
        yield Event.of(EventKind.COMMAND, turn.command, turn=number)
        for index, arguments in enumerate(turn.command.calls):
            started = {"index": index, "tool": turn.command.tool, "arguments": arguments}
            yield Event.of(EventKind.TOOL, started, turn=number)
    for index, observation in enumerate(turn.observations):
        yield Event.of(EventKind.OBSERVATION, {"index": index, **observation.model_dump(mode="json")}, turn=number)
    yield from _module("verifier", turn, number, calls)
    if turn.verdict:
        yield Event.of(EventKind.VERDICT, turn.verdict, turn=number)


def _module(role: str, turn: Turn, number: int, calls: Sequence[TracedCall]) -> Iterator[Event]:
    """Yield the role's calls in this turn, and what of their output could not be used."""
    for call in calls:
        if call.role == role:
            yield _call(call)
    faults: Sequence[Fault] = [fault for fault in turn.faults if fault.module == role]
    for fault in faults:
        yield Event.of(EventKind.FAULT, fault, turn=number)


def _call(call: TracedCall) -> Event:
    shown = call.model_dump(mode="json", exclude={"messages", "prompt_ids", "completion_ids", "logprobs", "text"})
    return Event.of(EventKind.CALL, shown, turn=call.turn)
