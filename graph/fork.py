"""Branching a run: a new trajectory that shares the turns before a chosen one."""

import time
from collections.abc import Sequence

import uuid_utils

from graph.errors import ConfigError
from graph.records import Plan, Turn
from graph.runner import Runner
from graph.state import FlowState, FlowUpdate, TurnEvent


async def fork_run(runner: Runner, run: str, *, turn: int, sub_goal: str | None = None, tool: str | None = None) -> str:
    """Lay out a new run that takes another way from `turn` on, and return its id; `Runner.drive_fork` runs it.

    Args:
        runner: with the database that holds the run.
        run: id of the run to branch from, ended or not.
        turn: 1-based; the turns before it are kept.
        sub_goal: replaces that turn's sub-goal; None lets the planner plan the turn anew.
        tool: replaces that turn's tool; needs `sub_goal`.

    Raises:
        ConfigError: there is no such run, turn or tool.
    """
    state: FlowState = (await runner.snapshot(run)).values  # type: ignore[assignment]
    turns = state.get("turns", [])
    if "request" not in state or not turns:
        raise ConfigError(f"The run {run} has no turns to fork from.")
    if not 1 <= turn <= len(turns):
        raise ConfigError(f"The run {run} has turns 1 to {len(turns)}, not {turn}.")
    goal = sub_goal if sub_goal is None else runner.secrets.hide(sub_goal)
    plan = _changed_plan(turns[turn - 1], goal, tool, list(runner.toolbox.tools))
    new = str(uuid_utils.uuid7())
    request = state["request"].model_copy(
        update={"parent": run, "parent_turns": turn - 1, "created": round(time.time(), 3)}
    )
    events: list[TurnEvent] = [event for kept in turns[: turn - 1] for event in turn_events(kept)]
    values: FlowUpdate = {
        "analysis": state.get("analysis", []),
        "turns": [*events, plan] if plan else events,
        "calls": [call for call in state.get("calls", []) if call.role != "generator" and call.turn < turn - 1],
    }
    # The node named as the writer decides what comes next: the executor after a plan, the planner without one.
    writer = "planner" if plan else "analyzer"
    given = {"request": request, "setup": runner.setup(request.question), **values}
    await runner.flow.aupdate_state(runner.address(new), given, as_node=writer)
    return new


def turn_events(turn: Turn) -> Sequence[TurnEvent]:
    """Return the events that fold into `turn`."""
    opening = [turn.plan] if turn.plan else []
    middle = [turn.command] if turn.command else []
    closing = [turn.verdict] if turn.verdict else []
    return [*opening, *middle, *turn.observations, *closing, *turn.faults]


def _changed_plan(turn: Turn, sub_goal: str | None, tool: str | None, offered: Sequence[str]) -> Plan | None:
    if sub_goal is None:
        if tool is not None:
            raise ConfigError("--tool goes with --sub-goal: say what the tool has to do.")
        return None
    chosen = tool or (turn.plan.tool if turn.plan else None)
    if chosen not in offered:
        raise ConfigError(f"There is no tool {chosen!r} on offer; known are {', '.join(offered)}.")
    if turn.plan:
        return turn.plan.model_copy(
            update={"sub_goal": sub_goal, "tool": chosen, "justification": "chosen by the user"}
        )
    return Plan(sub_goal=sub_goal, tool=chosen, justification="chosen by the user")
