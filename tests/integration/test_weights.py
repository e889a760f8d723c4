"""Full weights in a running vLLM server: exact log-probabilities after a push, and after one that failed."""

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph.errors import ConfigError, ModelError
from graph.policies.promotion import promote
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import push_weights, serving_mark, serving_version, version_of
from graph.runner import open_runner
from graph.serve_settings import ServeSettings
from tests.served_policy import Call, control, forward, gap, sample, sampled
from training.serve import VLLMServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # PEFT uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

TEMPERATURE = 0.7
EXACT = 1e-3
DISTINCT = 10 * EXACT
PREFIX = "The memory of earlier turns holds facts about towns and rivers. " * 40
"""Long enough for several blocks of the server's prefix cache."""


@pytest.fixture(scope="module")
def server(vllm_python: Path, tiny_planner: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    settings = ServeSettings(
        python=vllm_python, dtype="float32", max_model_len=4096, enforce_eager=True, full_weights=True
    )
    with VLLMServer(str(tiny_planner), settings, log=tmp_path_factory.mktemp("vllm") / "vllm.log") as found:
        yield found


@pytest.fixture(scope="module")
def policies(tiny_planner: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of versions: v1 in one file, v2 in shards, v3 in bfloat16."""
    directory = tmp_path_factory.mktemp("policies")
    for version, options in enumerate([{}, {"max_shard_size": "800KB"}, {"dtype": "bfloat16"}], start=1):
        changed(tiny_planner, directory / f"planner@v{version}", seed=version, **options)
    assert len(list((directory / "planner@v2").glob("*.safetensors"))) > 2
    return directory


@pytest.fixture
def served(server: VLLMServer, policies: Path) -> VLLMServer:
    """The server, with `planner@v1`."""
    if control(server.base_url, serving_version) != "planner@v1":
        push(server, policies, "planner@v1")
    return server


def changed(model: Path, directory: Path, *, seed: int, dtype: str = "float32", **options: Any) -> None:
    """Save the model with other weights, as a trainer does."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    network.to(getattr(torch, dtype)).save_pretrained(directory, **options)


def push(server: VLLMServer, policies: Path, version: str | None, *, by: type[VLLMControl] = VLLMControl) -> None:
    asyncio.run(pushing(server, policies, version, by=by))


async def pushing(
    server: VLLMServer, policies: Path, version: str | None, *, by: type[VLLMControl] = VLLMControl
) -> None:
    async with httpx.AsyncClient() as http:
        held = by(server.base_url, http)
        await push_weights(held, version, path_of=lambda name: policies / name, lock=policies / "push.lock")


def ask(server: VLLMServer) -> list[Call]:
    """Samples after a prefix that is in the cache from the first on."""
    return [
        sample(server.base_url, "planner", f"{PREFIX} Question {seed}?", temperature=TEMPERATURE, seed=seed)
        for seed in range(4)
    ]


def distance(calls: list[Call], model: Path) -> float:
    return gap(calls, forward(model, None, calls, temperature=TEMPERATURE))


def test_each_push_is_exact_under_a_prefix_cached_before(
    server: VLLMServer, tiny_planner: Path, policies: Path
) -> None:
    push(server, policies, None)
    places = {None: tiny_planner} | {f"planner@v{version}": policies / f"planner@v{version}" for version in (1, 2, 3)}
    before = ask(server)
    assert len(before[0][0]) > 400
    for version in ("planner@v1", "planner@v2", "planner@v3", None, "planner@v1"):
        assert cached(server) >= 384
        push(server, policies, version)
        assert control(server.base_url, serving_version) == (version or "default")
        assert cached(server) == 0
        calls = ask(server)
        for other, place in places.items():
            found = distance(calls, place)
            assert found < EXACT if other == version else found > DISTINCT, (version, other)


def cached(server: VLLMServer) -> int:
    """How much of the shared prefix the server has in its cache."""

    async def probe() -> int:
        async with httpx.AsyncClient(timeout=60) as http:
            text = f"{PREFIX} Probe."
            _, count = await sampled(
                http, server.base_url, "planner", text, temperature=TEMPERATURE, seed=0, max_tokens=1
            )
            return count

    return asyncio.run(probe())


def lose_tensor(directory: Path) -> None:
    rewrite(directory, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))


def reshape_tensor(directory: Path) -> None:
    name = "model.layers.1.self_attn.k_proj.weight"
    rewrite(directory, lambda tensors: tensors.update({name: tensors[name][:-1].contiguous()}))


def rewrite(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def cut_off(directory: Path) -> None:
    file = max(directory.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1000])


def lose_shard(directory: Path) -> None:
    max(directory.glob("*.safetensors")).unlink()


@pytest.mark.parametrize(
    ("source", "spoil", "said"),
    [
        ("planner@v1", lose_tensor, r"k_proj\.weight is missing"),
        ("planner@v1", reshape_tensor, r"k_proj\.weight has the shape \[63, 128\] in place of \[64, 128\]"),
        ("planner@v1", cut_off, r"model\.safetensors has \d+ bytes in place of"),
        ("planner@v2", cut_off, r"-of-.*safetensors has \d+ bytes in place of"),
        ("planner@v2", lose_shard, r"-of-.*safetensors cannot be read"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(
    served: VLLMServer, policies: Path, source: str, spoil: Callable[[Path], None], said: str
) -> None:
    mark = control(served.base_url, serving_mark)
    spoilt = policies / "planner@v8"
    shutil.copytree(policies / source, spoilt)
    try:
        spoil(spoilt)
        with pytest.raises(ConfigError, match=said):
            push(served, policies, "planner@v8")
    finally:
        shutil.rmtree(spoilt)
    assert control(served.base_url, serving_mark) == mark
    assert distance(ask(served), policies / "planner@v1") < EXACT


@pytest.mark.parametrize("spoil", [lose_shard, cut_off, shutil.rmtree])
def test_a_push_that_fails_in_the_middle_brings_the_old_weights_back(
    served: VLLMServer, policies: Path, spoil: Callable[[Path], None]
) -> None:
    """The files go between the check and the reload, half of which was done when vLLM finds out."""
    spoilt = policies / "planner@v9"

    class Spoiling(VLLMControl):
        async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, **rest: Any) -> Any:
            if body and body.get("kwargs") == {"weights_path": str(spoilt)}:
                spoil(spoilt)
            return await super().request(method, path, body, **rest)

    shutil.copytree(policies / "planner@v2", spoilt)
    try:
        with pytest.raises(ModelError, match="planner@v9 were not loaded, and planner@v1 answers"):
            push(served, policies, "planner@v9", by=Spoiling)
    finally:
        shutil.rmtree(spoilt, ignore_errors=True)
    assert control(served.base_url, serving_version) == "planner@v1"
    assert distance(ask(served), policies / "planner@v1") < EXACT
    push(served, policies, "planner@v2")
    assert distance(ask(served), policies / "planner@v2") < EXACT


async def test_calls_under_way_are_of_one_version_and_know_which(served: VLLMServer, policies: Path) -> None:
    """Those that saw the same mark before and after are of its version; none is half and half."""
    seen: list[tuple[str, str, Call]] = []
    done = asyncio.Event()

    async with httpx.AsyncClient(timeout=120) as http:
        held = VLLMControl(served.base_url, http)

        async def stream(number: int) -> None:
            seed = 100 * number
            while not done.is_set():
                seed += 1
                before = await serving_mark(held)
                text = f"{PREFIX} Question {seed}?"
                call, _ = await sampled(
                    http, served.base_url, "planner", text, temperature=1.0, seed=seed, max_tokens=64
                )
                seen.append((str(before), str(await serving_mark(held)), call))

        streams = [asyncio.create_task(stream(number)) for number in range(8)]
        versions = ["planner@v2", "planner@v1", "planner@v2"]
        for version in versions:
            await asyncio.sleep(1)
            await pushing(served, policies, version)
        await asyncio.sleep(1)
        done.set()
        await asyncio.gather(*streams)

    calls = [call for _, _, call in seen]
    rows = {name: forward(policies / name, None, calls, temperature=1.0) for name in ("planner@v1", "planner@v2")}
    told = 0
    for number, (before, after, call) in enumerate(seen):
        gaps = {name: gap([call], [rows[name][number]]) for name in rows}
        assert min(gaps.values()) < EXACT
        assert max(gaps.values()) > DISTINCT
        if before == after:
            told += 1
            assert gaps[version_of(before)] < EXACT
    marks = {before for before, after, _ in seen if before == after}
    assert [version_of(mark) for mark in sorted(marks)].count("planner@v2") == 2, "each push has a mark of its own"
    assert told > len(seen) / 2
    assert told < len(seen), "some were under way at a push"


async def test_adapters_are_not_left_on_other_weights(
    served: VLLMServer, tiny_planner: Path, policies: Path, tmp_path: Path
) -> None:
    from tests.random_adapter import random_adapter

    adapter = random_adapter(tiny_planner, tmp_path / "planner@v20", seed=1)
    async with httpx.AsyncClient() as http:
        held = VLLMControl(served.base_url, http)
        mark = await serving_mark(held)
        await held.load_adapter("planner@v20", adapter)
        with pytest.raises(ConfigError, match=r"holds planner@v20.*unload them first"):
            await pushing(served, policies, "planner@v2")
        assert await serving_mark(held) == mark
        await held.unload_adapter("planner@v20")
        await pushing(served, policies, "planner@v2")


def test_a_server_without_the_endpoints_is_left_alone(vllm_server: VLLMServer, policies: Path) -> None:
    assert control(vllm_server.base_url, serving_mark) is None
    with pytest.raises(ConfigError, match=r"start it with serve\.full_weights"):
        push(vllm_server, policies, "planner@v1")


async def test_the_flow_follows_promotions_from_weights_to_adapters_and_back(
    server: VLLMServer, tiny_planner: Path, policies: Path, tmp_path: Path
) -> None:
    from tests.random_adapter import random_adapter
    from tests.tiny_planner import QUESTIONS, config, world

    await pushing(server, policies, None)
    registry, base = PolicyRegistry(tmp_path / "registry"), str(tiny_planner)
    weights = registry.add(policies / "planner@v1", base_model=base).full_name
    trained = random_adapter(tiny_planner, tmp_path / "adapter", seed=1, strength=0.3)
    adapter = registry.add(trained, base_model=base).full_name
    with world() as others:
        chosen = config(others.url, planner="planner", planner_url=server.base_url, policies=registry.directory)
        async with httpx.AsyncClient() as http, open_runner(chosen) as runner:
            for name in (weights, adapter, weights, None):
                await promote(registry, name, server=VLLMControl(server.base_url, http), grace=0)
                done = await runner.ask(QUESTIONS[0])
                assert done.error is None
                found = [call for call in done.calls if call.role == "planner"]
                assert {call.policy for call in found} == {name or "planner"}
                calls = [
                    (list(c.prompt_ids or ()), list(c.completion_ids or ()), list(c.logprobs or ())) for c in found
                ]
                model = registry.path(weights) if name == weights else tiny_planner
                expected = forward(
                    model, registry.path(adapter) if name == adapter else None, calls, temperature=TEMPERATURE
                )
                assert gap(calls, expected) < EXACT
                other = tiny_planner if name is not None else registry.path(weights)
                assert distance(calls, other) > DISTINCT
