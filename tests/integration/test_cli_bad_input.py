"""What a user can get wrong: one sentence, exit status 2, no traceback, nothing lost."""

import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.command import Workplace, events
from tests.fakes import ScriptedServer
from tests.flows import scripts

_ROOM = 90_000
"""Bytes on a disk in which a run can begin, but not end."""
_NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripts(), repeat=True, key="right-key") as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Nobody answers there: what is wrong must be found before a model is needed."""
    return Workplace(tmp_path, _NOBODY)


def refused(done: "subprocess.CompletedProcess[str]", says: str) -> None:
    """One sentence that says what is wrong, and nothing else."""
    assert done.returncode == 2, done.stderr
    assert re.search(says, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.strip().endswith((".", "?"))
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("question", ["", "  \n"])
def test_empty_question(place: Workplace, question: str):
    refused(place.run("ask", question), "The question is empty")
    refused(place.run("ask", "-", stdin=question.encode()), "The question is empty")


def test_question_of_a_megabyte(place: Workplace):
    refused(place.run("ask", "-", stdin=b"why? " * 200_000), r"more than [\d,]+ bytes: shorten it")
    with ScriptedServer({}) as server:
        place.write_config(server.url)
        longest_argument = "why? " * 26_000  # the kernel takes no more
        refused(place.run("ask", longest_argument), r"has [\d,]+ characters; these models take at most [\d,]+")
        assert not server.requests


def test_standard_input_closed(place: Workplace):
    refused(place.run("ask", "-", stdin=None), "Standard input is closed")


def test_standard_input_that_is_not_text(place: Workplace):
    refused(place.run("ask", "-", stdin=b"what is \xff\xfe?"), r"not UTF-8 text \(byte 9\)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[models\nplanner", "agentflow.toml is not valid TOML"),
        ("\xff".encode("latin-1"), "agentflow.toml cannot be read"),
        (
            "[models.plannner]\ntemperature = 0.5",
            r"no setting models.plannner in agentflow.toml: did you mean planner\?",
        ),
        ("[models.planner]\ntemperature = 'hot'", "models.planner.temperature in agentflow.toml does not fit"),
        ('[tools]\nenabled = ["pyton"]', "There is no tool 'pyton'; known are .*python"),
        ('[tools]\ncustom = ["nowhere:tool"]', "custom tool 'nowhere:tool' cannot be loaded"),
        ('[tools]\ncustom = ["unwell:tool"]', "custom tool 'unwell:tool' cannot be loaded.*never closed"),
        ('[tools]\ncustom = ["worse:tool"]', "custom tool 'worse:tool' cannot be loaded.*division by zero"),
    ],
)
def test_configuration(place: Workplace, server: ScriptedServer, text: str | bytes, says: str):
    models = f'[models.default]\nmodel = "test-model"\nbase_url = "{server.url}"\napi_key_env = "TEST_KEY"\n'
    content = text if isinstance(text, bytes) else (f"{models}{text}" if text.startswith("[tools]") else text).encode()
    (place.directory / "agentflow.toml").write_bytes(content)
    (place.directory / "unwell.py").write_text("tool = (")
    (place.directory / "worse.py").write_text("def tool():\n    return 1 / 0\n")
    refused(place.run("ask", "q", env={"TEST_KEY": "right-key"}), says)
    assert not server.requests


def test_override(place: Workplace):
    refused(place.run("ask", "q", "--set", "budgets.max_turns"), "--set .* must look like")
    refused(place.run("ask", "q", "--set", "budgets.max_turns=-1"), r"budgets.max_turns \(--set\) does not fit")


def test_dead_server(place: Workplace):
    refused(place.run("ask", "q"), "No model server answers at http://127.0.0.1:9/v1")


def test_wrong_model_name(place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    done = place.run("ask", "q", "--set", "models.default.model=gpt-12", "--set", "models.default.api_key_env=TEST_KEY",
                     env={"TEST_KEY": "right-key"})  # fmt: skip
    refused(done, "does not serve 'gpt-12': set models.analyzer.model to one of test-model")


def test_key_that_is_missing_or_wrong(place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    refused(place.run("ask", "q"), r"wants a key \(401\): name its variable in api_key_env")
    named = ("ask", "q", "--set", "models.default.api_key_env=TEST_KEY")
    refused(place.run(*named), "The variable TEST_KEY is not set")
    (place.directory / ".env").write_text("TEST_KEY=wrong-key\n")
    done = place.run(*named)
    refused(done, r"wants a key \(401\): put it into TEST_KEY")
    assert "wrong-key" not in done.stderr
    (place.directory / ".env").write_text("TEST_KEY=right-key\n")
    done = place.run(*named)
    assert done.returncode == 0, done.stderr


def test_unknown_run(place: Workplace):
    refused(place.run("runs", "show", "0123"), "There are no runs yet")
    for command in (("show",), ("resume",), ("fork", "--turn", "1"), ("delete", "--yes")):
        with closing(sqlite3.connect(place.directory / "some.db")):
            pass
        (place.directory / "some.db").touch()
        done = place.run("runs", *command, "0123", "--set", "storage.url=some.db")
        refused(done, "There is no run '0123'")


def test_output_that_cannot_be_written(tmp_path: Path):
    with ScriptedServer(scripts(), repeat=True) as server:
        place = Workplace(tmp_path, server.url)
        for arguments in (("config", "show"), ("ask", "q"), ("ask", "q", "--json")):
            command = ["sh", "-c", 'exec "$@" >/dev/full', "sh", *place.command(*arguments)]
            done = subprocess.run(
                command, cwd=tmp_path, env=place.environment(), capture_output=True, text=True, timeout=60, check=False
            )
            refused(done, "No space left on device")


def test_unknown_option(place: Workplace):
    done = place.run("ask", "q", "--turns", "3")
    assert done.returncode == 2
    assert "No such option: --turns" in done.stderr


def test_state_that_cannot_be_written(tmp_path: Path, server: ScriptedServer):
    place = Workplace(tmp_path, server.url)
    (tmp_path / "file").touch()
    refused(place.run("ask", "q", "--set", "storage.url=file/state/runs.db"), "file/state cannot be written")
    (tmp_path / "folder.db").mkdir()
    refused(place.run("ask", "q", "--set", "storage.url=folder.db"), "folder.db cannot be written")
    assert not server.requests


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_read_only_disk(place: Workplace, small_disk: Path):
    with ScriptedServer(scripts(), repeat=True) as server:
        place.write_config(server.url, f'[storage]\nurl = "{small_disk}/runs.db"\n')
        place.call("ask", "q")
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        for command in (("ask", "q"), ("runs", "list")):
            refused(place.run(*command), "runs.db cannot be written")
        assert server.count("planner") == 1


def test_full_disk_loses_nothing(place: Workplace, small_disk: Path):
    with ScriptedServer(scripts(), repeat=True) as server:
        place.write_config(server.url, f'[storage]\nurl = "{small_disk}/runs.db"\n')
        place.call("ask", "first")
        filler = small_disk / "filler"
        free = os.statvfs(small_disk)
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize - _ROOM))
        done = place.run("ask", "second", "--json")
        assert done.returncode == 2, done.stderr
        assert "is full" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
        run = events(done.stdout)[-1]["id"]
        assert f"agentflow runs resume {run}" in done.stderr
        filler.unlink()
        assert "first" in place.call("runs", "list", "--status", "finished")
        assert events(place.call("runs", "resume", run, "--json"))[-1]["answer"] == "42"


@pytest.mark.parametrize("damage", ["all", "tail"])
def test_corrupt_database(tmp_path: Path, damage: str):
    with ScriptedServer(scripts(), repeat=True) as server:
        place = Workplace(tmp_path, server.url)
        place.call("ask", "q")
        file = tmp_path / ".agentflow" / "runs.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole = file.read_bytes()
        kept = 4096 if damage == "tail" else 0
        damaged = whole[:kept] + b"\xa5" * (len(whole) - kept)
        file.write_bytes(damaged)
        refused(place.run("ask", "q"), "is not a database of this project, or is damaged")
        assert file.read_bytes() == damaged
        assert server.count("planner") == 1
