"""Runs questions through the flow: opened once, used for many, alone or side by side."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import uuid_utils
from langchain_core.runnables import RunnableConfig
from langgraph.cache.base import BaseCache
from langgraph.types import StateSnapshot
from sqlalchemy.exc import SQLAlchemyError

from graph.config import FlowConfig, Role
from graph.context import Context
from graph.deadline import Deadline
from graph.errors import AgentFlowError, ConfigError, StorageError
from graph.flow import Flow, build_flow, recursion_limit
from graph.known_secrets import NO_SECRETS, KnownSecrets
from graph.limits import checked_question
from graph.models.client import RoleModel
from graph.projection import project, spent_seconds
from graph.question_check import check_question
from graph.records import Exchange, StopReason
from graph.run_events import OnEvent, tell_end, tell_start
from graph.run_setup import make_setup, memory_room, question_room
from graph.snapshot import read_snapshot
from graph.state import FlowInput, FlowState, Request, Setup
from graph.storage.database import Database
from graph.storage.owner import drive
from graph.storage.runs import Status
from graph.tools.registry import Toolbox
from graph.trace import Source, Trajectory
from graph.traces.telemetry.live import sending_live


@dataclass(frozen=True)
class Runner:
    """Everything that runs need, open."""

    config: FlowConfig
    models: Mapping[Role, RoleModel]
    toolbox: Toolbox
    flow: Flow
    database: Database | None = None
    """None: nothing is kept."""
    secrets: KnownSecrets = NO_SECRETS
    """Kept out of everything that a run stores, tells or sends."""
    cache: BaseCache[dict[str, object]] | None = None
    durability: Literal["async", "exit"] = "async"
    """`async`: a step's results survive a kill of the process. `exit` for rollouts, where a crash costs the rollouts
    under way."""
    on_end: Callable[[Trajectory], None] | None = None
    """Gets the trajectory of every run that has ended, however it did, and returns at once."""

    async def ask(
        self,
        question: str,
        *,
        on_event: OnEvent | None = None,
        conversation: str | None = None,
        group: str | None = None,
        reference: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        source: Source = "ask",
        dataset: str | None = None,
    ) -> Trajectory:
        """Run one question to its end.

        Args:
            question: what is asked.
            on_event: called with each event as it happens.
            conversation: earlier questions of this conversation are shown as history.
            group: id of the group of trajectories that are compared with each other.
            reference: accepted answers, kept for scoring; no model sees them.
            tags: kept with the run.
            source: who asks.
            dataset: name of the dataset that the question is from.

        Returns:
            The trajectory; a run failure is one with `stop` FAILED.

        Raises:
            ConfigError: the question is empty or too long for a model, or a context too small for a role's prompt.
            StorageError: the run cannot be kept.
        """
        run = str(uuid_utils.uuid7())
        request = Request(
            question=checked_question(question, question_room(self.models, self.toolbox)),
            history=await self._history(conversation),
            conversation=conversation,
            source=source,
            dataset=dataset,
            group=group,
            reference=tuple(reference) if reference is not None else None,
            tags=tuple(tags),
            created=round(time.time(), 3),
        )
        request = self.secrets.hide_all(request)
        await check_question(self.models, self.toolbox, request)
        with drive(run):
            await self._note_start(run, request)
            return await self._begin(run, request, on_event)

    async def _begin(self, run: str, request: Request, on_event: OnEvent | None) -> Trajectory:
        tell_start(on_event, run, request.question, resumed=False)
        state = FlowInput(request=request, setup=self.setup(request.question))
        return await self._drive(run, state, {"request": request, "setup": state["setup"]}, on_event)

    async def resume(self, run: str, *, on_event: OnEvent | None = None, force: bool = False) -> Trajectory:
        """Go on with an interrupted or failed run, without repeating what was committed.

        Models are those in force now; budgets and tools stay those that the run was started with.

        Args:
            run: its id.
            on_event: called with each event as it happens.
            force: also when a process of another machine or container drove it, and may still do so.

        Raises:
            ConfigError: there is no such run, it has ended, still goes on, or used a tool that is not there now.
            StorageError: what is stored of it is damaged, or cannot be read or written.
        """
        with drive(run):
            return await self._go_on(run, on_event, force=force)

    async def _go_on(self, run: str, on_event: OnEvent | None, *, force: bool) -> Trajectory:
        snapshot = await self.snapshot(run)
        state: FlowState = snapshot.values  # type: ignore[assignment]
        if "setup" not in state:
            return await self._start_over(run, on_event, force=force)
        if not snapshot.tasks:  # `next` leaves out tasks whose results are there but not yet in a checkpoint
            return await self._end_late(run, state, on_event, force=force)
        missing = [tool.name for tool in state["setup"].tools if tool.name not in self.toolbox.tools]
        if missing:
            raise ConfigError(f"The run {run} was offered {', '.join(missing)}, which cannot be used now.")
        if self.database:
            await self.database.runs.resume(run, force=force)
        tell_start(on_event, run, state["request"].question, resumed=True)
        # The tools may also have been started when the step before them was done, but not yet its checkpoint.
        started = any(t.name == "tools" or (t.name == "executor" and t.result is not None) for t in snapshot.tasks)
        return await self._drive(run, None, state, on_event, repeating=len(state["turns"]) - 1 if started else None)

    async def _end_late(self, run: str, state: FlowState, on_event: OnEvent | None, *, force: bool) -> Trajectory:
        """Note the end of a run whose process ended after its last step, before that was noted."""
        row = await self.database.runs.get(run) if self.database else None
        if self.database is None or row is None or row.status == "finished":
            raise ConfigError(f"The run {run} has ended ({state.get('stop')}): nothing is left to resume.")
        await self.database.runs.resume(run, force=force)
        tell_start(on_event, run, state["request"].question, resumed=True)
        return await self._end(run, state, on_event, None)

    async def _start_over(self, run: str, on_event: OnEvent | None, *, force: bool) -> Trajectory:
        """Run a question whose process ended before the first checkpoint: nothing is there to be repeated."""
        request = await self.database.runs.request(run) if self.database else None
        if self.database is None or request is None:
            raise ConfigError(f"There is no run {run}.")
        done = await self.database.runs.trajectory(run)
        if done and (done.turns or done.calls or done.source == "import"):
            raise ConfigError(f"The run {run} came from a file, without checkpoints: ask its question again.")
        await self.database.runs.resume(run, force=force)
        return await self._begin(run, request, on_event)

    async def drive_fork(self, run: str, *, on_event: OnEvent | None = None) -> Trajectory:
        """Run a trajectory that `graph.fork` has laid out."""
        with drive(run):
            state: FlowState = (await self.snapshot(run)).values  # type: ignore[assignment]
            await self._note_start(run, state["request"])
            tell_start(on_event, run, state["request"].question, resumed=False)
            return await self._drive(run, None, state, on_event)

    async def snapshot(self, run: str) -> StateSnapshot:
        """Return the latest checkpoint of a run; without values where there is none.

        Raises:
            StorageError: it is damaged, or not one of ours.
        """
        return await read_snapshot(self.flow, self.address(run))

    def setup(self, question: str = "") -> Setup:
        """Return what a new run of `question` is started with."""
        room = memory_room(self.models, self.toolbox)
        setup = make_setup(self.config, self.models, self.toolbox, room=room, question=question)
        return self.secrets.hide_all(setup)  # a tool may describe itself with its key

    @property
    def _durability(self) -> Literal["async", "sync", "exit"] | None:
        if self.database is None:
            return None
        return "exit" if self.durability == "exit" else self.database.durability

    async def _history(self, conversation: str | None) -> tuple[Exchange, ...]:
        if conversation is None or self.database is None:
            return ()
        rows = await self.database.runs.conversation(conversation)
        return tuple(Exchange(question=row.question, answer=row.answer or "") for row in rows)

    def address(self, run: str, max_turns: int | None = None) -> RunnableConfig:
        """Return LangGraph's address of a run."""
        limit = recursion_limit(self.config.budgets.max_turns if max_turns is None else max_turns)
        return {"configurable": {"thread_id": run}, "recursion_limit": limit}

    async def _note_start(self, run: str, request: Request) -> None:
        if self.database:
            await self.database.runs.start(run, request)

    async def _note_end(self, status: Status, trajectory: Trajectory) -> None:
        if self.database:
            await self.database.settle(trajectory.id)
            await self.database.runs.finish(trajectory.id, status, trajectory, error=trajectory.error)
        if self.on_end:
            self.on_end(trajectory)

    async def _drive(
        self,
        run: str,
        start: FlowInput | None,
        state: FlowState,
        on_event: OnEvent | None,
        *,
        repeating: int | None = None,
    ) -> Trajectory:
        """Stream the graph to its end; the boundary at which an exception becomes data."""
        setup = state["setup"]
        context = Context(
            run=run,
            models=self.models,
            toolbox=self.toolbox,
            deadline=Deadline(setup.max_seconds - spent_seconds(state)),
            repeating=repeating,
            secrets=self.secrets,
            cache=self.cache,
            settle=partial(self.database.settle, run) if self.database and self.durability != "exit" else None,
            on_event=on_event,
        )
        try:
            stream: AsyncIterator[Any] = self.flow.astream(
                start,
                self.address(run, setup.max_turns),
                context=context,
                stream_mode="values",
                durability=self._durability,
            )
            async for values in stream:
                state = values
        except asyncio.CancelledError:
            await asyncio.shield(self._note_end("cancelled", project(run, state, stop=StopReason.CANCELLED)))
            raise
        except (sqlite3.Error, SQLAlchemyError, StorageError):
            raise  # nothing can be recorded; the database's own context says it in a sentence
        except Exception as error:  # noqa: BLE001 - a failed run is data, never a crash of what runs beside it
            return await self._end(run, state, on_event, error)
        return await self._end(run, state, on_event, None)

    async def _end(self, run: str, state: FlowState, on_event: OnEvent | None, error: Exception | None) -> Trajectory:
        if error is None:
            trajectory = project(run, state)
        else:
            what = str(error) if isinstance(error, AgentFlowError) else f"{type(error).__name__}: {error}"
            trajectory = project(run, state, stop=StopReason.FAILED, error=self.secrets.hide(what))
        await self._note_end("failed" if error else "finished", trajectory)
        tell_end(on_event, trajectory)
        return trajectory


@asynccontextmanager
async def open_runner(
    config: FlowConfig,
    *,
    database: Database | None = None,
    durability: Literal["async", "exit"] = "async",
    tools: Sequence[str] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> AsyncIterator[Runner]:
    """Open models and tools, and close them when the block ends.

    Args:
        config: the settings in force.
        database: where runs are kept; None keeps nothing.
        durability: when checkpoints are written.
        tools: names of the only tools to offer; None for all that are enabled and available.
        on_notice: called with a sentence where something takes long.

    Raises:
        ConfigError: a model, key or tool that the user must see to.
    """
    # Slow to import (LangChain's OpenAI client): a command that never runs a question does not pay for them.
    from graph.models.factory import open_models
    from graph.tools.cache import open_cache
    from graph.tools.registry import open_toolbox

    async with (
        open_models(config, on_notice=on_notice) as models,
        open_toolbox(config.tools, models.by_role["generate"]) as toolbox,
        sending_live(config, on_notice=on_notice) as on_end,
    ):
        yield Runner(
            config=config,
            models=models.by_role,
            toolbox=toolbox.only(tools) if tools is not None else toolbox,
            flow=build_flow(database.saver if database else None),
            database=database,
            secrets=KnownSecrets.of(config),
            cache=open_cache() if config.tools.cache else None,
            durability=durability,
            on_end=on_end,
        )
