"""A checkpoint from somebody else never runs code (case 45)."""

import json
import pickle
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import ormsgpack
import pytest
from langgraph.checkpoint.serde import jsonplus

from graph.errors import StorageError
from graph.records import Answer, Plan, StopReason
from graph.state import Request, Setup, ToolDescription
from graph.storage.serializer import StrictSerializer, record_types
from graph.tools.cache import ResultCache
from tests.fakes import ScriptedServer
from tests.flows import open_flow, scripts


def payloads(marker: Path) -> dict[str, tuple[str, bytes]]:
    """Values of every known kind of attack, each of which would create `marker` if anything in it ran."""
    command = f"touch {marker}"

    class Bomb:
        def __reduce__(self):
            return (subprocess.call, (["touch", str(marker)],))

    def ext(code: int, *parts: object) -> bytes:
        return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))

    def constructor(module: list[str], **fields: object) -> bytes:
        return json.dumps({"lc": 2, "type": "constructor", "id": module, **fields}).encode()

    return {
        "pickle": ("pickle", pickle.dumps(Bomb())),
        "lc-json system": ("json", constructor(["os", "system"], args=[command])),
        "lc-json popen": ("json", constructor(["subprocess", "Popen"], args=[["touch", str(marker)]])),
        "lc1-json": ("json", json.dumps({"lc": 1, "type": "constructor", "id": ["os", "system"]}).encode()),
        "msgpack system": ("msgpack", ext(jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, "os", "system", command)),
        "msgpack popen": (
            "msgpack",
            ext(jsonplus.EXT_CONSTRUCTOR_POS_ARGS, "subprocess", "Popen", [["touch", str(marker)]]),
        ),
        "msgpack run": (
            "msgpack",
            ext(jsonplus.EXT_CONSTRUCTOR_KW_ARGS, "subprocess", "run", {"args": ["touch", str(marker)]}),
        ),
        "msgpack eval": (
            "msgpack",
            ext(jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, "builtins", "eval", f"__import__('os').system('{command}')"),
        ),
        "msgpack method": ("msgpack", ext(jsonplus.EXT_METHOD_SINGLE_ARG, "os", "system", command, "__call__")),
        "msgpack pydantic": (
            "msgpack",
            ext(jsonplus.EXT_PYDANTIC_V2, "subprocess", "run", {"args": ["touch", str(marker)]}, "model_construct"),
        ),
        "msgpack other model": (
            "msgpack",
            ext(jsonplus.EXT_PYDANTIC_V2, "graph.config", "FlowConfig", {}, "model_validate_json"),
        ),
        "msgpack nested": (
            "msgpack",
            ormsgpack.packb(
                {"a": [ormsgpack.Ext(0, ormsgpack.packb(("os", "system", command)))]}, option=ormsgpack.OPT_NON_STR_KEYS
            ),
        ),
        "unknown": ("cbor", b"\xa0"),
        "not msgpack": ("msgpack", b"\xc1\xff\x00"),
        "unknown ext": ("msgpack", ormsgpack.packb(ormsgpack.Ext(99, b"x"))),
    }


NAMES = sorted(payloads(Path("marker")))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_a_value_runs(name, tmp_path):
    marker = tmp_path / "marker"
    try:
        value = StrictSerializer().loads_typed(payloads(marker)[name])
    except StorageError as error:
        assert "not read" in str(error) or "damaged" in str(error)  # noqa: PT017 - both outcomes are right
    else:
        json.dumps(value, default=lambda data: data.hex())  # plain data: raises for anything else
    assert not marker.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoints SET type = ?, checkpoint = ?",
        "UPDATE writes SET type = ?, value = ?",
        "UPDATE writes SET type = ?, value = ? WHERE channel = 'turns'",
        "UPDATE writes SET type = ?, value = ? WHERE channel = 'setup'",
    ],
)
async def test_a_run_with_such_rows_is_refused(statement, tmp_path, monkeypatch):
    marker, file = tmp_path / "marker", tmp_path / "runs.db"
    monkeypatch.setenv("COUNTING_FILE", str(tmp_path / "count.txt"))
    with ScriptedServer(scripts(verifier=[{"status": 400}])) as server:
        async with open_flow(server, str(file)) as runner:
            run = (await runner.ask("What is 40 + 2?")).id
            for name in NAMES:
                with closing(sqlite3.connect(file)) as connection, connection:
                    assert connection.execute(statement, payloads(marker)[name]).rowcount
                with pytest.raises(StorageError, match=r"damaged|never writes"):
                    await runner.resume(run)
    assert not marker.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_cache_of_somebody_else_is_harmless(name, tmp_path):
    marker = tmp_path / "marker"
    cache = ResultCache(str(tmp_path / "tools.db"))
    key = (("agentflow", "tools"), "key")
    cache.set({key: ({"a": 1}, None)})
    kind, data = payloads(marker)[name]
    with closing(sqlite3.connect(tmp_path / "tools.db")) as connection, connection:
        connection.execute("UPDATE cache SET encoding = ?, val = ?", (kind, data))
    cache.get([key])
    assert not marker.exists()


@pytest.mark.parametrize(
    "value",
    [
        Plan(sub_goal="s", tool="t"),
        Answer(answer="a"),
        StopReason.VERIFIED,
        [Request(question="q", tags=("a",))],
        Setup(tools=(ToolDescription(name="n", description="d", examples=(("g", {"a": 1}),)),)),
        None,
        b"bytes",
        {"a": [1, 2.5, "ü"]},
    ],
)
def test_our_own_records_come_back_equal(value):
    serializer = StrictSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value


def test_only_records_and_the_stop_reason_are_allowed():
    names = {name for _, name in record_types()}
    assert {"Plan", "Turn", "ModelCall", "Request", "Setup", "StopReason", "Answer"} <= names
    assert all(module in {"graph.records", "graph.state"} for module, _ in record_types())
