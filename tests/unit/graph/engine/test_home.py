import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from graph.engine.home import EngineHome, EngineState, all_homes, engines_directory, home_of
from graph.engine.model_file import AdapterFile, ModelFile
from graph.engine.settings import LocalSettings

STATE = EngineState(
    phase="ready",
    pid=17,
    birth="boot/1",
    started=1.0,
    port=4000,
    api_key="key",
    model="m",
    threads=1,
    context_per_slot=512,
    idle_seconds=900,
)
MODEL = ModelFile(Path("m.gguf"), "m", "identity", 1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineHome:
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path))
    home = home_of(LocalSettings(), MODEL, 1)
    home.make()
    return home


def test_state_is_kept_and_closed_to_others(home: EngineHome) -> None:
    assert home.read_state() is None
    assert home.touched() is None
    home.write_state(STATE)
    assert home.read_state() == STATE
    assert stat.S_IMODE(home.state_path.stat().st_mode) == 0o600
    assert [path.name for path in home.directory.iterdir() if path.name.startswith(".state")] == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', STATE.model_dump_json().replace("ready", "gone")])
def test_a_damaged_state_is_none(home: EngineHome, content: str) -> None:
    home.state_path.write_text(content)
    assert home.read_state() is None


def test_only_ones_own_state_is_cleared(home: EngineHome) -> None:
    home.write_state(STATE)
    home.clear_state(STATE.pid + 1)
    assert home.read_state() == STATE
    home.clear_state(STATE.pid)
    assert home.read_state() is None
    home.clear_state(STATE.pid)


def test_a_touch_shows(home: EngineHome) -> None:
    home.write_state(STATE)
    before = home.touched()
    home.touch()
    after = home.touched()
    assert before is not None
    assert after is not None
    assert after >= before


def test_a_killed_holder_holds_nothing(home: EngineHome) -> None:
    code = "import sys, pathlib; from graph.engine.home import EngineHome\n"
    code += (
        "lock = EngineHome(pathlib.Path(sys.argv[1])).alive_lock(); lock.acquire(); print('held', flush=True); input()"
    )
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert home.engine_lives()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert not home.engine_lives()


def test_what_an_engine_is_made_of_decides_its_home(home: EngineHome) -> None:
    same = home_of(LocalSettings(idle_seconds=5), MODEL, 1)
    others = [
        home_of(LocalSettings(), MODEL, 2),
        home_of(LocalSettings(context_per_slot=8192), MODEL, 1),
        home_of(LocalSettings(), ModelFile(Path("m.gguf"), "m", "another", 1), 1),
        home_of(LocalSettings(), MODEL, 1, AdapterFile(Path("a.gguf"), "planner@v1", "one", 1)),
        home_of(LocalSettings(), MODEL, 1, AdapterFile(Path("a.gguf"), "planner@v1", "two", 1)),
        home_of(LocalSettings(), MODEL, 1, AdapterFile(Path("a.gguf"), "planner@v2", "one", 1)),
    ]
    assert same == home
    assert len({home.directory, *(other.directory for other in others)}) == 7
    assert all_homes() == [home]
    (engines_directory() / "a file").touch()
    assert all_homes() == [home]
