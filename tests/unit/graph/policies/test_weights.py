"""The steps of a push, against a server that behaves as vLLM was seen to."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from filelock import FileLock

from graph.errors import ConfigError, ModelError
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import push_weights, serving_mark, serving_version
from tests.policy_directories import weights_directory, write_safetensors
from tests.policy_server import PolicyServer


class WeightServer(PolicyServer):
    """Holds weights, and keeps half of them when a reload failed, until an empty one."""

    def __init__(self, root: Path) -> None:
        super().__init__({}, weights="default")
        self.place = self.root = str(root)
        self.torn = self.paused = False
        self.cache: str | None = self.place
        """The weights that the prefix cache was filled under."""
        self.steps: list[str] = []
        self.refusals: dict[str, int] = {}
        """How many of the next requests to a path fail."""
        self.busy = 0
        """How many of the next resets of the cache do nothing, which only their body says."""
        self.meddle: Callable[[], Any] = lambda: None
        """Called before weights are loaded."""

    @property
    def serves(self) -> tuple[str, str | None]:
        """What calls are answered with, and as what; fails unless they are answered, and right."""
        assert not self.paused
        assert not self.torn
        assert self.cache in {None, self.place}
        return self.place, (self.weights or "").partition("#")[0]

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
        url = urlsplit(path)
        if url.path == "/v1/models":
            status, listed = super().endpoint(path, body) or (500, {})
            listed["data"][0]["root"] = self.root
            return status, listed
        if self.weights is None or url.path.startswith("/v1") or url.path == "/weight_info":
            return super().endpoint(path, body)
        self.steps.append(url.path)
        if self.refusals.get(url.path, 0) > 0:
            self.refusals[url.path] -= 1
            return 500, {"error": {"message": "scripted"}}
        match url.path:
            case "/pause":
                assert url.query == "mode=wait"
                self.paused = True
            case "/resume":
                self.paused = False
            case "/update_weight_version":
                self.weights = body["new_version"] if body else None
            case "/reset_prefix_cache":
                if self.busy > 0:
                    self.busy -= 1
                    return 200, {"success": False}
                self.cache = None
                return 200, {"success": True}
            case "/collective_rpc":
                assert body is not None
                assert body["method"] == "reload_weights"
                return self._reload(**body["kwargs"])
        return 200, {}

    def _reload(self, weights_iterator: list[Any] | None = None, weights_path: str = "") -> tuple[int, Any]:
        assert self.paused, "calls under way would be mixed"
        if weights_iterator is not None:
            self.torn = False
            return 200, {"results": [None]}
        self.meddle()
        if self.torn or not (Path(weights_path) / "config.json").is_file():
            self.torn = True
            return 500, {"error": {"message": "Worker failed"}}
        self.place = weights_path
        return 200, {"results": [None]}


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    for number in (1, 2):
        weights_directory(tmp_path / "policies" / f"planner@v{number}")
    return tmp_path / "policies"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WeightServer]:
    with WeightServer(weights_directory(tmp_path / "base")) as found:
        yield found


async def push(server: WeightServer, registry: Path, version: str | None, **options: Any) -> None:
    def path_of(name: str) -> Path:
        if not (registry / name).is_dir():
            raise ConfigError(f"There is no {name}.")
        return registry / name

    await use(server, lambda held: push_weights(held, version, path_of=path_of, lock=registry / "push.lock", **options))


async def use(server: WeightServer, act: Callable[[VLLMControl], Awaitable[Any]]) -> Any:
    async with httpx.AsyncClient() as http:
        return await act(VLLMControl(server.url, http))


async def test_pushes_there_and_back(server: WeightServer, registry: Path) -> None:
    marks = [await use(server, serving_mark)]
    for version in ("planner@v1", "planner@v2", "planner@v1"):
        await push(server, registry, version)
        assert server.serves == (str(registry / version), version)
        assert await use(server, serving_version) == version
        marks.append(await use(server, serving_mark))
    await push(server, registry, None)
    assert server.serves == (server.root, "default")
    marks.append(await use(server, serving_mark))
    assert len(set(marks)) == len(marks), "the same version again has another mark"


async def test_the_order_of_steps(server: WeightServer, registry: Path) -> None:
    await push(server, registry, "planner@v1")
    mark = "/update_weight_version"
    assert server.steps == ["/pause", mark, "/collective_rpc", "/reset_prefix_cache", mark, "/resume"]


async def test_in_the_middle_the_server_says_that_it_is_loading(server: WeightServer, registry: Path) -> None:
    seen: list[str | None] = []
    server.meddle = lambda: seen.append(server.weights)
    await push(server, registry, "planner@v1")
    assert [str(mark).partition("#")[0] for mark in seen] == ["loading"]


async def test_weights_that_do_not_fit_are_not_pushed(server: WeightServer, registry: Path) -> None:
    await push(server, registry, "planner@v1")
    server.steps.clear()
    write_safetensors(registry / "planner@v2" / "model.safetensors", {"model.norm.weight": (5,)})
    with pytest.raises(ConfigError, match=r"model\.norm\.weight has the shape"):
        await push(server, registry, "planner@v2")
    with pytest.raises(ConfigError, match="no planner@v9"):
        await push(server, registry, "planner@v9")
    assert server.steps == []
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


async def test_a_server_without_the_endpoints_is_refused(server: WeightServer, registry: Path) -> None:
    server.weights = None
    assert await use(server, serving_version) is None
    with pytest.raises(ConfigError, match=r"start it with serve\.full_weights"):
        await push(server, registry, "planner@v1")
    assert server.steps == []


async def test_adapters_belong_to_the_weights_under_them(server: WeightServer, registry: Path) -> None:
    server.adapters["planner@v7"] = "/policies/planner@v7"
    with pytest.raises(ConfigError, match=r"holds planner@v7, which belong .*: unload them first"):
        await push(server, registry, "planner@v1")
    assert server.steps == []


async def test_a_base_that_is_not_here_cannot_be_compared_which_is_said(server: WeightServer, registry: Path) -> None:
    server.root = "/another/machines/model"
    notices: list[str] = []
    await push(server, registry, "planner@v1", on_notice=notices.append)
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")
    assert len(notices) == 1
    assert "there is no copy of /another/machines/model" in notices[0]
    (registry / "planner@v2" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        await push(server, registry, "planner@v2")


@pytest.mark.parametrize("held", ["planner@v1", None])
async def test_a_failed_reload_brings_the_old_weights_back(
    server: WeightServer, registry: Path, held: str | None
) -> None:
    await push(server, registry, held)
    old = server.serves
    server.meddle = _once((registry / "planner@v2" / "config.json").unlink)
    with pytest.raises(ModelError, match=f"planner@v2 were not loaded, and {held or 'default'} answers: .*500"):
        await push(server, registry, "planner@v2")
    assert server.serves == old


async def test_old_weights_that_are_gone_give_way_to_the_model_as_it_is(server: WeightServer, registry: Path) -> None:
    await push(server, registry, "planner@v1")
    shutil.rmtree(registry / "planner@v1")
    server.refusals = {"/collective_rpc": 1}
    with pytest.raises(ModelError, match="planner@v2 were not loaded, and default answers"):
        await push(server, registry, "planner@v2")
    assert server.serves == (server.root, "default")


async def test_files_that_change_while_they_are_loaded_are_not_kept(server: WeightServer, registry: Path) -> None:
    await push(server, registry, "planner@v1")
    file = registry / "planner@v2" / "model.safetensors"
    server.meddle = _once(lambda: write_safetensors(file, {"model.norm.weight": (3,)}))
    with pytest.raises(ModelError, match=r"planner@v1 answers: .*changed during the push"):
        await push(server, registry, "planner@v2")
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


@pytest.mark.parametrize("path", ["/collective_rpc", "/update_weight_version"])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_every_step_that_fails_leaves_the_old_weights(
    server: WeightServer, registry: Path, path: str, times: int
) -> None:
    await push(server, registry, "planner@v1")
    server.refusals = {path: times}
    with pytest.raises(ModelError, match="planner@v1 answers"):
        await push(server, registry, "planner@v2")
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


@pytest.mark.parametrize("path", ["/reset_prefix_cache", "/resume"])
async def test_what_must_not_fail_is_tried_again(server: WeightServer, registry: Path, path: str) -> None:
    server.refusals, server.busy = {path: 1}, 1
    await push(server, registry, "planner@v1")
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


async def test_calls_that_do_not_end_in_time_keep_the_old_weights(server: WeightServer, registry: Path) -> None:
    server.refusals = {"/pause": 1}
    with pytest.raises(ModelError, match="/pause"):
        await push(server, registry, "planner@v1")
    assert server.serves == (server.root, "default")
    assert server.steps == ["/pause", "/resume"]


async def test_weights_that_cannot_be_brought_back_are_told(server: WeightServer, registry: Path) -> None:
    server.refusals = {"/collective_rpc": 1000}
    with pytest.raises(ModelError, match=r"lost its weights.*restart it"):
        await push(server, registry, "planner@v1")
    assert not server.paused, "calls fail, and do not wait for ever"
    assert await use(server, serving_version) == "loading"

    server.refusals.clear()
    await push(server, registry, "planner@v1")
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


async def test_a_push_after_one_that_was_killed(server: WeightServer, registry: Path) -> None:
    server.paused, server.torn, server.weights = True, True, "loading#00"
    await push(server, registry, "planner@v1")
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


async def test_a_push_that_is_cancelled_brings_the_old_weights_back(server: WeightServer, registry: Path) -> None:
    await push(server, registry, "planner@v1")
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    pushing = asyncio.create_task(push(server, registry, "planner@v2"))
    server.meddle = _once(lambda: loop.call_soon_threadsafe(pushing.cancel))
    with pytest.raises(asyncio.CancelledError):
        await pushing
    assert server.serves == (str(registry / "planner@v1"), "planner@v1")


async def test_pushes_take_turns(server: WeightServer, registry: Path) -> None:
    await asyncio.gather(*(push(server, registry, f"planner@v{1 + i % 2}") for i in range(6)))
    once = ["/pause", "/update_weight_version", "/collective_rpc"]
    once += ["/reset_prefix_cache", "/update_weight_version", "/resume"]
    assert server.steps == once * 6
    server.steps.clear()
    with FileLock(registry / "push.lock"), pytest.raises(ModelError, match=r"Another process .*push\.lock"):
        await push(server, registry, "planner@v1", patience=0.2)
    assert server.steps == []


def _once(act: Callable[[], Any]) -> Callable[[], Any]:
    todo = [act]
    return lambda: todo.pop()() if todo else None
