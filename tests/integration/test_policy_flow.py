"""The flow with its planner on real vLLM: held to a schema or not, through promotions, and through a server's death.

Only the planner's model is tiny, and the roles that are not trained answer from a script.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from graph.config import FlowConfig
from graph.errors import ConfigError
from graph.events import Event, EventKind
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.records import StopReason
from graph.runner import open_runner
from graph.serve_settings import ServeSettings
from graph.storage.database import open_database
from graph.trace import Trajectory
from tests.random_adapter import random_adapter
from tests.served_policy import Call, control, forward, gap
from tests.tiny_planner import QUESTIONS, TEMPERATURE, config, world
from training.serve import VLLMServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # peft uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

EXACT = 1e-3
DISTINCT = 10 * EXACT


@pytest.fixture
def registry(tiny_planner: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PolicyRegistry]:
    """Two versions of the planner that answer differently, none promoted; the shared server forgets them at the end."""
    registry = PolicyRegistry(tmp_path / "policies")
    for seed in (1, 2):
        registry.add(random_adapter(tiny_planner, tmp_path / f"adapter{seed}", seed=seed, strength=0.3))
    yield registry
    if "vllm_server" in request.fixturenames:
        url = request.getfixturevalue("vllm_server").base_url
        for name in control(url, VLLMControl.adapters):
            control(url, lambda server, name=name: server.unload_adapter(name))


def flow(server: VLLMServer, others: str, registry: PolicyRegistry, **changes: str) -> FlowConfig:
    return config(others, planner="planner", planner_url=server.base_url, policies=registry.directory, **changes)


@pytest.mark.parametrize(("structured", "constrained"), [("auto", False), ("off", False), ("json_schema", True)])
async def test_from_question_to_answer(
    vllm_server: VLLMServer, registry: PolicyRegistry, structured: str, constrained: bool
) -> None:
    with world() as others:
        async with open_runner(flow(vllm_server, others.url, registry, structured=structured)) as runner:
            done = await asyncio.gather(*(runner.ask(question) for question in QUESTIONS * 2))
    for trajectory in done:
        assert trajectory.error is None
        assert trajectory.stop in {StopReason.VERIFIED, StopReason.MAX_TURNS}
        calls = [call for call in trajectory.calls if call.role == "planner"]
        assert len(calls) == len(trajectory.turns)
        for call in calls:
            assert call.sampling["constrained"] is constrained
            assert call.messages is not None
            assert call.policy == "planner"
            assert len(call.completion_ids or ()) == len(call.logprobs or ()) == call.usage.completion
            assert len(call.prompt_ids or ()) == call.usage.prompt
            assert call.finish_reason in {"stop", "length"}
            if constrained and call.finish_reason == "stop":
                assert json.loads(call.text)["tool"] in {"python", "generate"}
        assert all(call.prompt_ids is None for call in trajectory.calls if call.role != "planner")


async def test_a_promotion_by_another_process_holds_from_the_next_call_on(
    vllm_server: VLLMServer, tiny_planner: Path, registry: PolicyRegistry
) -> None:
    seen: dict[str, list[Call]] = {}
    with world() as others:
        async with open_runner(flow(vllm_server, others.url, registry)) as runner:
            for policy in (None, "planner@v1", "planner@v2", "planner@v1", None):
                code = "import sys; from graph.policies.registry import PolicyRegistry as R; "
                code += "R(sys.argv[1]).promote(sys.argv[2] or None)"
                command = [sys.executable, "-c", code, str(registry.directory), policy or ""]
                await asyncio.to_thread(subprocess.run, command, check=True)
                trajectory = await runner.ask(QUESTIONS[0])
                assert trajectory.error is None
                seen.setdefault(policy or "planner", []).extend(planner_calls(trajectory, policy or "planner"))
    paths = {"planner": None, **{name: registry.path(name) for name in ("planner@v1", "planner@v2")}}
    for name, calls in seen.items():
        for other, path in paths.items():
            found = gap(calls, forward(tiny_planner, path, calls, temperature=TEMPERATURE))
            assert found < EXACT if other == name else found > DISTINCT


async def test_a_version_asked_for_by_name_answers_whatever_is_promoted(
    vllm_server: VLLMServer, registry: PolicyRegistry
) -> None:
    registry.promote("planner@v1")
    with world() as others:
        for use, policy in (("planner@v2", "planner@v2"), ("base", "planner"), ("promoted", "planner@v1")):
            async with open_runner(flow(vllm_server, others.url, registry, use=use)) as runner:
                planner_calls(await runner.ask(QUESTIONS[0]), policy)
        with pytest.raises(ConfigError, match="planner@v7"):
            async with open_runner(flow(vllm_server, others.url, registry, use="planner@v7")):
                pass


@pytest.fixture
def mortal(vllm_python: Path, tiny_planner: Path, tmp_path: Path) -> Iterator[VLLMServer]:
    """A server of this test alone, started by it."""
    settings = ServeSettings(python=vllm_python, dtype="float32", max_model_len=4096, enforce_eager=True)
    server = VLLMServer(str(tiny_planner), settings, log=tmp_path / "vllm.log")
    yield server
    server.stop()


async def test_vllm_killed_during_a_call(
    mortal: VLLMServer, tiny_planner: Path, registry: PolicyRegistry, tmp_path: Path
) -> None:
    """The run fails with one sentence and can be resumed; a restarted server is picked up, and loads the policy."""
    registry.promote("planner@v1")
    this = psutil.Process()
    others_before = set(this.children(recursive=True))  # other tests' servers
    await asyncio.to_thread(mortal.start)
    family = set(this.children(recursive=True)) - others_before

    def kill(event: Event) -> None:
        if event.kind == EventKind.TOKEN and event.data["module"] == "planner":
            for process in (found for found in family if found.is_running()):
                process.send_signal(signal.SIGKILL)

    with world() as others:
        async with (
            open_database(str(tmp_path / "runs.db")) as database,
            open_runner(flow(mortal, others.url, registry), database=database) as runner,
        ):
            failed = await runner.ask(QUESTIONS[0], on_event=kill)
            _check_failure(failed, mortal)
            _check_failure(await runner.resume(failed.id), mortal)

            mortal.stop()
            await asyncio.to_thread(mortal.start)
            done = await runner.resume(failed.id)
            assert (await runner.ask(QUESTIONS[1])).error is None
    assert done.error is None
    assert done.stop in {StopReason.VERIFIED, StopReason.MAX_TURNS}
    assert others.count("analyzer") == 2, "what was committed before the kill is not asked again"
    calls = planner_calls(done, "planner@v1")
    path = registry.path("planner@v1")
    assert gap(calls, forward(tiny_planner, path, calls, temperature=TEMPERATURE)) < EXACT


def _check_failure(trajectory: Trajectory, server: VLLMServer) -> None:
    assert trajectory.stop is StopReason.FAILED
    assert trajectory.reward is None
    assert trajectory.error is not None
    assert server.base_url in trajectory.error
    assert "\n" not in trajectory.error


def planner_calls(trajectory: Trajectory, policy: str) -> list[Call]:
    """Ids and log-probabilities of the planner's calls, all of which `policy` answered."""
    assert trajectory.error is None
    calls = [call for call in trajectory.calls if call.role == "planner"]
    assert {call.policy for call in calls} == {policy}
    return [(list(c.prompt_ids or ()), list(c.completion_ids or ()), list(c.logprobs or ())) for c in calls]
