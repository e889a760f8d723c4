"""Promotions with a server in view: what it holds before, during and after them, and where they fail."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from graph.errors import ConfigError, ModelError, StorageError
from graph.policies.promotion import Promoted, load, promote, roll_back, unload
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from tests.policy_directories import adapter_directory, weights_directory
from tests.policy_server import PolicyServer
from tests.unit.graph.policies.test_weights import WeightServer

ADAPTERS = ("planner@v1", "planner@v2")
WEIGHTS = ("planner@v3", "planner@v4")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return weights_directory(tmp_path / "base")


@pytest.fixture
def registry(tmp_path: Path, base: Path) -> PolicyRegistry:
    """Two adapters of the base, two full weights of it, and an adapter of another model."""
    registry = PolicyRegistry(tmp_path / "policies")
    for name in ADAPTERS:
        registry.add(adapter_directory(tmp_path / f"adapter-{name}", base=str(base)))
    for name in WEIGHTS:
        registry.add(weights_directory(tmp_path / f"weights-{name}"), base_model=str(base))
    registry.add(adapter_directory(tmp_path / "foreign", base="/models/other"))
    return registry


@pytest.fixture
def server(base: Path) -> Iterator[WeightServer]:
    with WeightServer(base) as found:
        yield found


@pytest.fixture
async def control(server: PolicyServer) -> AsyncIterator[VLLMControl]:
    async with httpx.AsyncClient() as http:
        yield VLLMControl(server.url, http)


class WatchedRegistry(PolicyRegistry):
    """Lets something happen right after a switch."""

    on_switch: Callable[[], object]

    def promote(self, full_name: str | None) -> str | None:
        before = super().promote(full_name)
        self.on_switch()
        return before


async def test_the_next_is_loaded_before_the_switch_and_the_last_unloaded_after_it(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    first = await promote(registry, "planner@v1", server=control, grace=0)
    assert first == Promoted(None, "planner@v1", loaded=True)
    watched = WatchedRegistry(registry.directory)
    seen: list[tuple[float, set[str]]] = []
    watched.on_switch = lambda: seen.append((time.monotonic(), set(server.adapters)))
    second = await promote(watched, "planner@v2", server=control, grace=0.3)
    assert second == Promoted("planner@v1", "planner@v2", loaded=True, unloaded=("planner@v1",))
    [(switched, held)] = seen
    assert held == set(ADAPTERS)
    assert time.monotonic() - switched >= 0.3, "who read the old name a moment ago still finds it"
    assert server.adapters == {"planner@v2": str(registry.path("planner@v2"))}
    back = await roll_back(registry, server=control, grace=0)
    assert back == Promoted("planner@v2", "planner@v1", loaded=True, unloaded=("planner@v2",))
    assert await promote(registry, None, server=control, grace=0) == Promoted(
        "planner@v1", None, loaded=True, unloaded=("planner@v1",)
    )
    assert server.adapters == {}
    assert server.loads == ["planner@v1", "planner@v2", "planner@v1"]


async def test_promoting_again_what_is_promoted_loads_what_the_server_lost(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    server.adapters.clear()
    again = await promote(registry, "planner@v1", server=control, grace=0)
    assert again == Promoted("planner@v1", "planner@v1", loaded=True)
    assert list(server.adapters) == ["planner@v1"]
    assert len(registry.promotions().history) == 1


async def test_the_last_stays_loaded_where_it_is_wanted(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    done = await promote(registry, "planner@v2", server=control, keep_old=True)
    assert (done.unloaded, set(server.adapters)) == ((), set(ADAPTERS))


async def test_what_was_promoted_again_meanwhile_is_not_unloaded(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    watched = WatchedRegistry(registry.directory)
    watched.on_switch = registry.rollback
    assert (await promote(watched, "planner@v2", server=control, grace=0)).unloaded == ()
    assert set(server.adapters) == set(ADAPTERS)


async def test_an_adapter_that_is_refused_leaves_the_old_one_promoted_and_served(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    server.load_refusal = "LoRA rank 64 is greater than max_lora_rank 16."
    with pytest.raises(ModelError, match="LoRA rank 64"):
        await promote(registry, "planner@v2", server=control, grace=0)
    assert (registry.promoted(), list(server.adapters)) == ("planner@v1", ["planner@v1"])
    with pytest.raises(ConfigError, match="belongs to /models/other"):
        await promote(registry, "planner@v5", server=control, grace=0)
    (registry.path("planner@v2") / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="was changed"):
        await promote(registry, "planner@v2", server=control, grace=0)
    with pytest.raises(ConfigError, match="no policy planner@v9"):
        await promote(registry, "planner@v9", server=control, grace=0)
    assert (registry.promoted(), list(server.adapters)) == ("planner@v1", ["planner@v1"])
    assert len(registry.promotions().history) == 1


async def test_a_server_that_does_not_answer_is_told_of_and_loads_it_later(registry: PolicyRegistry) -> None:
    notices: list[str] = []
    async with httpx.AsyncClient() as http:
        nobody = VLLMControl("http://127.0.0.1:9/v1", http)
        done = await promote(registry, "planner@v1", server=nobody, on_notice=notices.append)
        assert done == Promoted(None, "planner@v1", loaded=False)
        assert (await roll_back(registry, server=nobody, on_notice=notices.append)).now is None
    assert "does not answer; the next question loads it" in notices[0]
    assert registry.promoted() is None


async def test_without_a_server_only_the_files_are_checked(registry: PolicyRegistry) -> None:
    assert await promote(registry, "planner@v1", server=None) == Promoted(None, "planner@v1", loaded=False)
    (registry.path("planner@v2") / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="was changed"):
        await promote(registry, "planner@v2", server=None)
    assert registry.promoted() == "planner@v1"


async def test_nothing_to_roll_back_to(registry: PolicyRegistry, server: WeightServer, control: VLLMControl) -> None:
    with pytest.raises(ConfigError, match="nothing to go back to"):
        await roll_back(registry, server=control)


async def test_between_adapters_weights_and_the_base(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    """Adapters belong to the server's own weights: they go before others come, and come after these are back."""
    place: dict[str | None, str] = {None: server.root, **{name: str(registry.path(name)) for name in WEIGHTS}}
    for name in ("planner@v1", "planner@v3", "planner@v4", "planner@v2", "planner@v3", None):
        done = await promote(registry, name, server=control, grace=0)
        assert done.loaded
        assert registry.promoted() == name
        weights = name if name in WEIGHTS else None
        assert server.serves == (place[weights], weights or "default")
        assert set(server.adapters) == ({name} if name in ADAPTERS else set())


@pytest.mark.parametrize("before", ["planner@v1", "planner@v3", None])
async def test_weights_that_fail_bring_back_what_was_served(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl, before: str | None
) -> None:
    await promote(registry, before, server=control, grace=0)
    held, adapters = server.serves, dict(server.adapters)
    server.refusals["/collective_rpc"] = 1
    with pytest.raises(ModelError, match="were not loaded"):
        await promote(registry, "planner@v4", server=control, grace=0)
    assert (registry.promoted(), server.serves, server.adapters) == (before, held, adapters)


async def test_an_adapter_that_fails_after_weights_brings_the_weights_back(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v3", server=control, grace=0)
    held = server.serves
    server.load_refusal = "the adapter is of another shape"
    with pytest.raises(ModelError, match="another shape"):
        await promote(registry, "planner@v1", server=control, grace=0)
    assert (registry.promoted(), server.serves, server.adapters) == ("planner@v3", held, {})


class FullRegistry(PolicyRegistry):
    """Whose disk is full when a promotion is to be written."""

    def promote(self, full_name: str | None) -> str | None:
        raise StorageError("promoted.json cannot be written.")


@pytest.mark.parametrize("name", ["planner@v2", "planner@v3"])
async def test_a_switch_that_fails_gives_back_what_was_served(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl, name: str
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    held, adapters = server.serves, dict(server.adapters)
    with pytest.raises(StorageError):
        await promote(FullRegistry(registry.directory), name, server=control, grace=0)
    assert (registry.promoted(), server.serves, server.adapters) == ("planner@v1", held, adapters)


async def test_what_cannot_be_given_back_is_said(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await promote(registry, "planner@v1", server=control, grace=0)
    server.refusals["/collective_rpc"] = 1
    server.load_refusal = "no more adapters"
    with pytest.raises(ModelError) as caught:
        await promote(registry, "planner@v3", server=control, grace=0)
    assert "could not be given back" in caught.value.__notes__[0]
    assert registry.promoted() == "planner@v1", "whose next call loads it"


async def test_a_server_without_the_endpoints_refuses_weights_and_keeps_its_adapters(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    server.weights = None
    await promote(registry, "planner@v1", server=control, grace=0)
    with pytest.raises(ConfigError, match=r"serve\.full_weights = true"):
        await promote(registry, "planner@v3", server=control, grace=0)
    assert (registry.promoted(), list(server.adapters)) == ("planner@v1", ["planner@v1"])
    await load(registry, None, control)


async def test_loading_and_unloading_promote_nothing(
    registry: PolicyRegistry, server: WeightServer, control: VLLMControl
) -> None:
    await load(registry, "planner@v1", control)
    await load(registry, "planner@v1", control)
    assert list(server.adapters) == ["planner@v1"]
    with pytest.raises(ConfigError, match="unload them first"):
        await load(registry, "planner@v3", control)
    with pytest.raises(ConfigError, match=r"planner@v2 is not loaded .* holds planner@v1"):
        await unload("planner@v2", control)
    await unload("planner@v1", control)
    await load(registry, "planner@v3", control)
    assert server.serves == (str(registry.path("planner@v3")), "planner@v3")
    with pytest.raises(ConfigError, match="load base first"):
        await load(registry, "planner@v1", control)
    await load(registry, None, control)
    assert server.serves == (server.root, "default")
    assert registry.promoted() is None
