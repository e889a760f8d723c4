"""A steady load of planner calls, as many runs at the same time make it."""

import asyncio
import random
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

from graph.config import FlowConfig
from graph.deadline import Deadline
from graph.errors import ModelError
from graph.models.client import RoleModel
from graph.prompt import Message
from graph.records import ModelCall
from tests.served_policy import Call
from tests.tiny_planner import config

MEMORY = "The memory of earlier turns holds facts about towns and rivers. " * 20
"""More than 400 tokens that all prompts share."""


def streams_config(world_url: str, planner_url: str, policies: Path) -> FlowConfig:
    """The tiny planner's, with short completions: an adapter is asked often, and there are many."""
    flow = config(world_url, planner="planner", planner_url=planner_url, policies=policies)
    planner = flow.models.planner.model_copy(update={"max_tokens": 16})
    return flow.model_copy(update={"models": flow.models.model_copy(update={"planner": planner})})


class Streams:
    """Calls that follow each other in `number` streams while the `async with` block runs.

    The block fails as soon as a call does. When it ends, the calls under way are finished.
    """

    def __init__(self, model: RoleModel, number: int = 32, *, pause: float = 0.0) -> None:
        """`pause` is the mean time between two calls of a stream, in which a run would use its tools."""
        self.calls: list[ModelCall] = []
        """In the order in which they ended."""
        self.repeated = 0
        """How many were made again, as the flow does: their version had been unloaded, say."""
        self._model = model
        self._number = number
        self._pause = pause
        self._ended = asyncio.Event()
        self._answered = asyncio.Condition()
        self._tasks = asyncio.TaskGroup()

    async def answered_by(self, policy: str) -> None:
        """Wait until a call was answered by `policy`."""
        async with self._answered:
            await self._answered.wait_for(lambda: any(call.policy == policy for call in reversed(self.calls)))

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        for stream in range(self._number):
            self._tasks.create_task(self._run(stream))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        await self._tasks.__aexit__(kind, error, trace)

    async def _run(self, stream: int) -> None:
        question = 0
        await asyncio.sleep(self._pause * stream / self._number)
        while not self._ended.is_set():
            question += 1
            messages: list[Message] = [
                {"role": "system", "content": "You plan the next step."},
                {"role": "user", "content": f"{MEMORY} Stream {stream} asks question {question}?"},
            ]
            begun = time.monotonic()
            async for attempt in _as_the_flow():
                with attempt:
                    late = time.monotonic() - begun
                    call = await self._model.complete(messages, schema=None, deadline=Deadline(120), turn=0)
            if (again := attempt.retry_state.attempt_number - 1) > 0:  # what a run waits for begins with the first
                self.repeated += again
                times = {"first_token_seconds": (call.first_token_seconds or 0) + late, "seconds": call.seconds + late}
                call = call.model_copy(update={**times, "at": call.at - late})
            async with self._answered:
                self.calls.append(call)
                self._answered.notify_all()
            await asyncio.sleep(self._pause * random.uniform(0, 2))


def _as_the_flow() -> AsyncRetrying:
    def passing(error: BaseException) -> bool:
        return isinstance(error, ModelError) and error.transient

    return AsyncRetrying(retry=retry_if_exception(passing), stop=stop_after_attempt(3), reraise=True)


def ids_of(call: ModelCall) -> Call:
    """Ids and log-probabilities of one of the streams' calls."""
    assert call.prompt_rest is not None
    assert call.completion_ids is not None
    assert call.logprobs is not None
    return list(call.prompt_rest), list(call.completion_ids), list(call.logprobs)
