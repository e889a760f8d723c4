"""Versions of an adapter that follow each other under load: each call is answered by the one that it records."""

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from graph.errors import ConfigError, ModelError
from graph.models.factory import open_models
from graph.policies.policy import Policy
from graph.policies.promotion import promote
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from tests.planner_streams import MEMORY, Streams, ids_of, streams_config
from tests.random_adapter import random_adapter
from tests.served_policy import Call, control, forward, gap, sample, sampled
from tests.tiny_planner import TEMPERATURE, world
from training.serve import VLLMServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # PEFT uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

VERSIONS = 20
STREAMS = 32
EXACT = 1e-3
DISTINCT = 10 * EXACT


@pytest.fixture
def registry(tiny_planner: Path, tmp_path: Path) -> PolicyRegistry:
    return PolicyRegistry(tmp_path / "policies")


def add(registry: PolicyRegistry, model: Path, seed: int) -> Policy:
    adapter = random_adapter(model, registry.directory.parent / f"adapter{seed}", seed=seed)
    return registry.add(adapter, base_model=str(model))


async def test_each_call_is_answered_by_the_version_that_it_records(
    vllm_server: VLLMServer, tiny_planner: Path, registry: PolicyRegistry
) -> None:
    names = [add(registry, tiny_planner, seed).full_name for seed in range(VERSIONS)]
    with world() as others:
        flow = streams_config(others.url, vllm_server.base_url, registry.directory)
        async with open_models(flow) as models, httpx.AsyncClient() as http:
            server = VLLMControl(vllm_server.base_url, http)
            async with Streams(models.by_role["planner"], STREAMS) as streams:
                await streams.answered_by("planner")
                for name in names:
                    await promote(registry, name, server=server, grace=0.3)
                    await streams.answered_by(name)
            await promote(registry, None, server=server, grace=0.3)
            left = await server.adapters()
            for name in left:
                await server.unload_adapter(name)
    assert len(left) < 3, "those before are unloaded as others follow"

    assert all(call.completion_ids and call.finish_reason in {"stop", "length"} for call in streams.calls)
    assert {call.policy for call in streams.calls} == {"planner", *names}
    places = {"planner": None, **{name: registry.path(name) for name in names}}
    for before, name in pairwise([None, *places]):
        calls = [ids_of(call) for call in streams.calls if call.policy == name]
        assert min(len(prompt) for prompt, _, _ in calls) > 400
        assert gap(calls, forward(tiny_planner, places[name], calls, temperature=TEMPERATURE)) < EXACT
        if before:  # the version that a call could have been mixed up with
            wrong = forward(tiny_planner, places[before], calls[:8], temperature=TEMPERATURE)
            far = [gap([call], [row]) > DISTINCT for call, row in zip(calls, wrong, strict=False)]
            assert sum(far) > 0.8 * len(far)


async def test_the_model_as_it_is_beside_adapters(
    vllm_server: VLLMServer, tiny_planner: Path, registry: PolicyRegistry
) -> None:
    """A call without an adapter that shares a batch with others; vLLM on the CPU needs our plugin for it."""
    names = [add(registry, tiny_planner, seed).full_name for seed in (1, 2)]
    async with httpx.AsyncClient(timeout=60) as http:
        server = VLLMControl(vllm_server.base_url, http)

        async def ask(model: str, seed: int) -> Call:
            text = f"Question {seed}?"  # too short for the prefix cache, which would keep what is wrong
            call, _ = await sampled(
                http, server.base_url, model, text, temperature=TEMPERATURE, seed=seed, max_tokens=64
            )
            return call

        for name in names:
            await server.load_adapter(name, registry.path(name))
            await ask(name, 0)  # takes a slot
        calls = await asyncio.gather(*(ask("planner" if seed % 2 else names[0], seed) for seed in range(8)))
        for name in names:
            await server.unload_adapter(name)
    own = [call for seed, call in enumerate(calls) if seed % 2]
    assert gap(own, forward(tiny_planner, None, own, temperature=TEMPERATURE)) < EXACT


def ask(server: VLLMServer, name: str) -> list[Call]:
    """Samples after a prefix that is in the cache from the first on."""
    return [
        sample(server.base_url, name, f"{MEMORY} Question {seed}?", temperature=TEMPERATURE, seed=seed)
        for seed in range(3)
    ]


def distance(calls: list[Call], model: Path, adapter: Path) -> float:
    return gap(calls, forward(model, adapter, calls, temperature=TEMPERATURE))


def test_vllm_answers_from_the_cache_of_files_that_were_replaced(
    vllm_server: VLLMServer, tiny_planner: Path, tmp_path: Path
) -> None:
    """Why a version never changes: this is what vLLM does with one that did, and nobody would see it."""
    first, second = (random_adapter(tiny_planner, tmp_path / f"adapter{seed}", seed=seed) for seed in (1, 2))
    path = tmp_path / "planner@v901"
    shutil.copytree(first, path)
    control(vllm_server.base_url, lambda server: server.load_adapter(path.name, path))
    assert distance(ask(vllm_server, path.name), tiny_planner, first) < EXACT

    shutil.copytree(second, path, dirs_exist_ok=True)
    control(vllm_server.base_url, lambda server: server.load_adapter(path.name, path))
    assert distance(ask(vllm_server, path.name), tiny_planner, first) < EXACT, "what is loaded is left alone"

    control(vllm_server.base_url, lambda server: server.unload_adapter(path.name))
    control(vllm_server.base_url, lambda server: server.load_adapter(path.name, path))
    stale = ask(vllm_server, path.name)
    control(vllm_server.base_url, lambda server: server.unload_adapter(path.name))
    assert distance(stale, tiny_planner, first) > DISTINCT
    assert distance(stale, tiny_planner, second) > DISTINCT

    fresh = tmp_path / "planner@v902"
    shutil.copytree(second, fresh)
    control(vllm_server.base_url, lambda server: server.load_adapter(fresh.name, fresh))
    assert distance(ask(vllm_server, fresh.name), tiny_planner, second) < EXACT
    control(vllm_server.base_url, lambda server: server.unload_adapter(fresh.name))


def test_a_version_that_changed_is_never_served(
    vllm_server: VLLMServer, tiny_planner: Path, registry: PolicyRegistry
) -> None:
    held, elsewhere = add(registry, tiny_planner, 1).full_name, registry.directory.parent / "other" / "planner@v1"
    load(vllm_server, registry, held)
    expected = ask(vllm_server, held)
    shutil.copytree(registry.path(held), elsewhere)
    with pytest.raises(ModelError, match="give it another version"):
        control(vllm_server.base_url, lambda server: server.load_adapter(held, elsewhere))

    load(vllm_server, registry, None)
    random_adapter(tiny_planner, registry.path(held), seed=2)
    with pytest.raises(ConfigError, match=held):
        load(vllm_server, registry, held)
    assert held not in control(vllm_server.base_url, VLLMControl.adapters)
    assert registry.promoted() is None

    again = add(registry, tiny_planner, 2).full_name
    load(vllm_server, registry, again)
    calls = ask(vllm_server, again)
    assert distance(calls, tiny_planner, registry.path(again)) < EXACT
    assert distance(expected, tiny_planner, registry.path(again)) > DISTINCT
    load(vllm_server, registry, None)


def load(server: VLLMServer, registry: PolicyRegistry, name: str | None) -> None:
    control(server.base_url, lambda held: promote(registry, name, server=held, grace=0.0))
