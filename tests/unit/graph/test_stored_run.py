import asyncio
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from graph.errors import StorageError
from graph.events import Event
from graph.records import StopReason
from graph.state import Request
from graph.storage.database import open_database
from graph.stored_run import trajectory_of
from tests.fakes import STOP, ScriptedServer
from tests.flows import open_flow, scripts


@pytest.fixture(autouse=True)
def counting_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTING_FILE", str(tmp_path / "counts"))


async def test_an_ended_run_is_what_was_written(tmp_path: Path):
    url = str(tmp_path / "runs.db")
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, url) as runner:
            asked = await runner.ask("What?")
    async with open_database(url) as database:
        row = await database.runs.get(asked.id)
        assert row
        assert await trajectory_of(database, row) == asked


async def test_a_run_under_way_is_what_its_checkpoints_hold(tmp_path: Path):
    with ScriptedServer(scripts(verifier=[{"text": STOP, "delay": 60}])) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            assert runner.database
            verifying = asyncio.Event()

            def look(event: Event) -> None:
                if event.data.get("module") == "verifier":
                    verifying.set()

            asking = asyncio.create_task(runner.ask("What?", on_event=look))
            await verifying.wait()
            (row,) = await runner.database.runs.latest()
            trajectory = await trajectory_of(runner.database, row)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
    assert row.status == "running"
    assert (trajectory.stop, trajectory.answer) == (StopReason.CANCELLED, None)
    assert trajectory.turns[0].observations[0].content == "noted a"


async def test_a_run_that_has_only_begun_is_its_question(tmp_path: Path):
    async with open_database(str(tmp_path / "runs.db")) as database:
        await database.runs.start("0", Request(question="What?"))
        row = await database.runs.get("0")
        assert row
        trajectory = await trajectory_of(database, row)
    assert (trajectory.question, trajectory.turns) == ("What?", ())


@pytest.mark.parametrize("column", ["metadata", "checkpoint"])
async def test_a_damaged_checkpoint_is_said_to_be_damaged(column: str, tmp_path: Path):
    url = str(tmp_path / "runs.db")
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, url) as runner:
            asked = await runner.ask("What?")
    with closing(sqlite3.connect(url)) as connection, connection:
        connection.execute("UPDATE runs SET status = 'running'")
        connection.execute(f"UPDATE checkpoints SET {column} = ?", (b"{",))
    async with open_database(url) as database:
        row = await database.runs.get(asked.id)
        assert row
        with pytest.raises(StorageError, match=r"damaged.*: delete the run"):
            await trajectory_of(database, row)
