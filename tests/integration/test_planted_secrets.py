"""Keys are planted wherever one can get in, and looked for in everything that the program leaves: none may be there.

The program, its model server, its tool and its databases are real; every file of the workplace is searched byte by
byte, and what is compressed once more as it was before.
"""

import json
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.command import Workplace, events
from tests.fakes import GO_ON, STOP, Reply, ScriptedServer, plan
from tests.integration.test_postgres import cluster, url  # noqa: F401

PLANNER_KEY = "planted/planner+4711"
TOOL_KEY = "tvly-planted-tool-4712"
SERVER_KEY = "planted-mcp-server-4713"
PASSWORD = "planted-database-4714"
SHAPED = "sk-proj-planted4715abcdefghij"
KNOWN = {
    "planner": PLANNER_KEY,
    "tool": TOOL_KEY,
    "tool, cut": TOOL_KEY[:14],
    "MCP server": SERVER_KEY,
    "database": PASSWORD,
}
MCP_SERVER = '''
import os

from mcp.server.fastmcp import FastMCP

server = FastMCP("leaky", log_level="ERROR")


@server.tool()
def show_key() -> str:
    """Show it."""
    return "pat " + os.environ["GITHUB_PAT"]


@server.tool()
def fail() -> str:
    """Fail with it."""
    raise ValueError("pat " + os.environ["GITHUB_PAT"])


server.run()
'''
ENVIRONMENT = {"OUR_PLANNER_KEY": PLANNER_KEY, "TAVILY_API_KEY": TOOL_KEY}
BOTH = f"{PLANNER_KEY} and {TOOL_KEY}"

TOOL = '''
"""A tool that has a key and does not keep it to itself."""

import logging
import os
import sys

from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field, field_validator

from graph.tools.card import ToolCard

KEY = os.environ["TAVILY_API_KEY"]


class Args(BaseModel):
    text: str = Field(description="what to do")

    @field_validator("text")
    @classmethod
    def check(cls, value: str) -> str:
        if value == "validate":
            raise ValueError(f"{KEY} does not take this")
        if value == "break validator":
            raise RuntimeError(f"{KEY} broke")
        return value


async def leak(text: str) -> tuple[str, dict[str, object]]:
    logging.getLogger("leaky").warning("calling with %s", KEY)
    if text == "raise":
        raise RuntimeError(f"401 for {KEY}")
    if text == "long":  # what is kept of it ends within the key
        return f"{KEY} {'.' * 141}{KEY}{'.' * 400}", {}
    return f"your key is {KEY}; text={text}", {"headers": {KEY: [f"Bearer {KEY}"]}}


def tool() -> StructuredTool:
    return StructuredTool.from_function(
        coroutine=leak, name="leak", description=f"Answers with {KEY}.", args_schema=Args,
        response_format="content_and_artifact",
        metadata={"card": ToolCard(limits=f"Not without {KEY}.", best_practice="-", max_output=300)},
    )


def broken() -> StructuredTool:
    raise RuntimeError(f"{KEY} opens nothing")
'''


def written(role: str, text: str) -> str:
    """What a role's model says, with a text of its own in it."""
    return {
        "analyzer": json.dumps({"summary": text, "skills": text, "tools": ["leak"], "considerations": text}),
        "executor": json.dumps({"calls": [{"text": text}, {"text": "raise"}, {"text": "long"}, {"text": "validate"}]}),
        "verifier": json.dumps({"analysis": text, "stop": False}),
        "generator": json.dumps({"solution": text, "answer": text}),
    }[role]


def replies(last: Reply) -> dict[str, list[Reply]]:
    """A run of three turns whose models hold the keys, one as JSON may escape it; `last` is the last verdict."""
    escaped = written("executor", "break validator").replace("break", f"{TOOL_KEY} break")
    escaped = escaped.replace(TOOL_KEY, "".join(f"\\u{ord(character):04x}" for character in TOOL_KEY))
    return {
        "analyzer": [written("analyzer", BOTH)],
        "planner": [plan("leak", f"Use {BOTH}"), f"no plan, but {BOTH}", plan("leak", TOOL_KEY), plan("leak")],
        "executor": [written("executor", f"with {PLANNER_KEY}"), escaped, written("executor", "break validator")],
        "verifier": [written("verifier", BOTH), GO_ON, last],
        "generator": [written("generator", f"It is {BOTH}")],
    }


def script(server: ScriptedServer, last: Reply) -> None:
    """Begin anew."""
    server.scripts = {role: list(said) for role, said in replies(last).items()}


class Place(Workplace):
    """A workplace whose commands print no key."""

    def __init__(self, directory: Path, server: ScriptedServer) -> None:
        super().__init__(directory, server.url)
        self.printed = ""
        (directory / "leaky_tool.py").write_text(TOOL, encoding="utf-8")
        (directory / "agentflow.toml").write_text(
            f'[models.default]\nmodel = "test-model"\nbase_url = "{server.url}"\nmax_retries = 0\n'
            f'[models.planner]\napi_key_env = "OUR_PLANNER_KEY"\n'
            f'[models.default.extra]\n[budgets]\nmax_turns = 4\n[tools]\nenabled = []\ncustom = ["leaky_tool:tool"]\n',
            encoding="utf-8",
        )

    def tell(self, *arguments: str, status: int = 0, **env: str) -> str:
        """Run a command and return its standard output."""
        done = self.run(*arguments, env={**ENVIRONMENT, **env})
        assert done.returncode == status, f"{arguments}: {done.stdout}\n{done.stderr}"
        assert found_in(f"{done.stdout}\n{done.stderr}".encode()) == [], f"{arguments}: {done.stdout}\n{done.stderr}"
        self.printed += done.stdout + done.stderr
        return done.stdout


def found_in(data: bytes, secrets: Mapping[str, str] = KNOWN) -> list[str]:
    """Names of the secrets in data, also where it is compressed, JSON or part of an address."""
    with suppress(zlib.error):
        data += zlib.decompressobj().decompress(data)
    return [
        name
        for name, secret in secrets.items()
        if any(form.encode() in data for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")))
    ]


def leaks(left: Iterable[tuple[str, bytes]], secrets: Mapping[str, str] = KNOWN) -> list[tuple[str, list[str]]]:
    """Where secrets were found."""
    return [(place, found) for place, data in left if (found := found_in(data, secrets))]


def files(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Every file that the program left, whole; and of databases every value, as what is compressed must be found."""
    for path in sorted(directory.rglob("*")):
        if (
            not path.is_file()
            or path.name in {"leaky_tool.py", "leaky_server.py", "agentflow.toml"}
            or "__pycache__" in path.parts
        ):
            continue
        data = path.read_bytes()
        yield path.name, data
        if data.startswith(b"SQLite format 3"):
            yield from values(path)


def values(database: Path) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = bytes
        tables = [
            name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from ((f"{database.name}, {table}", value) for value in row if isinstance(value, bytes))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(replies(STOP), owned_by="vllm") as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: ScriptedServer) -> Place:
    return Place(tmp_path, server)


def test_planted_keys_are_nowhere(place: Place, server: ScriptedServer):
    question = f"Is {BOTH} safe?"
    # While somebody reads, the write-ahead log is kept, with all that was ever written to it.
    (place.directory / ".agentflow").mkdir()
    with closing(sqlite3.connect(place.directory / ".agentflow" / "runs.db")) as reader:
        place.tell("ask", f"{question} Is {SHAPED}?", "--tag", TOOL_KEY, "--cache")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        script(server, STOP)
        streamed = place.tell("ask", question, "--cache", "--json")
        long = f"the keys {BOTH} were revoked {'.' * 214}{TOOL_KEY}"  # what is kept of it ends within the last key
        script(server, {"status": 401, "message": long})
        place.tell("ask", question, "-v", "--debug", status=2)
        run = json.loads(place.tell("runs", "list", "--json").splitlines()[0])["id"]
        for verdict in (
            {"json": {"error": {"message": BOTH}}},
            {"text": BOTH, "raw": f"data: {json.dumps({'error': {'message': BOTH}})}\n\n".encode()},
        ):
            server.scripts["verifier"] = [verdict]
            place.tell("runs", "resume", run, "--debug", status=2)
        server.scripts["verifier"] = [STOP]
        place.tell("runs", "resume", run, "--json")
        script(server, STOP)
        server.scripts["verifier"] = [STOP]
        place.tell("runs", "fork", run, "--turn", "1", "--sub-goal", f"With {BOTH}", "--tool", "leak")
        place.tell("feedback", run, "--good", "--answer", TOOL_KEY, "--note", f"It needed {BOTH}.")
        place.tell("runs", "show", run, "-v")
        place.tell("runs", "show", run, "--json")
        place.tell("traces", "show", run, "--json")
        exported = place.tell("traces", "export", "-")
        place.tell("traces", "export", "personal", "--format", "parquet", "--redact")
        assert (place.directory / ".agentflow" / "runs.db-wal").stat().st_size > 100_000
        assert leaks(files(place.directory)) == []
    assert found_in("".join(e["text"] for e in events(streamed) if e["event"] == "token").encode()) == []
    # No prompt holds one, so that no server sees it; nor do token ids, which would still spell it.
    assert found_in(json.dumps(server.requests).encode()) == []
    traces = [json.loads(line) for line in exported.splitlines()]
    pieces = {token: piece for piece, token in server.vocabulary.items()}
    for call in (call for trace in traces for call in trace["calls"]):
        for ids in (call["prompt_ids"], call["completion_ids"]):
            assert found_in("".join(pieces.get(token, "") for token in ids or ()).encode()) == []
    # What is a key by its shape alone is nobody's that this process knows: it goes when it is exported.
    assert SHAPED not in exported
    assert leaks(files(place.directory / "personal"), {"shaped": SHAPED}) == []
    _were_planted(traces, place, server)


def _were_planted(traces: list[dict[str, Any]], place: Place, server: ScriptedServer) -> None:
    """The keys came everywhere, or the test would show nothing."""
    assert f"Bearer {PLANNER_KEY}" in {headers["authorization"] for headers in server.headers}
    texts = {path for trace in traces for path in _paths(trace)}
    assert texts >= {
        "question", "tags", "reference", "analysis.summary", "answer", "solution", "turns.plan.sub_goal",
        "turns.command.calls.text", "turns.observations.content", "turns.observations.arguments.text",
        "turns.observations.artifact.headers", "turns.faults.output", "turns.verdict.analysis", "feedback.note",
        "feedback.answer", "calls.text", "calls.messages.content",
    }  # fmt: skip
    results = [result["content"] for turn in traces[0]["turns"] for result in turn["observations"]]
    for told in ("your key is [key]", "RuntimeError: 401 for [key]", "characters left out", "[key] does not take this"):
        assert any(told in result for result in results), (told, results)
    assert any("RuntimeError: [key] broke" in result for trace in traces for result in json.dumps(trace).splitlines())
    assert {bool(call["completion_ids"]) for call in traces[1]["calls"]} == {True, False}
    for told in ("the keys [key] and [key] were revoked", "calling with [key]"):
        assert told in place.printed, told


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [path] if "[key]" in key else []
            yield from _paths(inner, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    elif isinstance(value, str) and "[key]" in value:
        yield path


def test_what_is_wrong_with_the_settings_is_told_without_keys(place: Place):
    """A tool that cannot be loaded, a database that is not there, settings that hold keys themselves."""
    broken = ("--set", 'tools.custom=["leaky_tool:broken"]')
    for arguments in (("ask", "?", "--json"), ("ask", "?", "--debug")):
        place.tell(*arguments, *broken, status=2)
    nowhere = ("--set", f"storage.url=postgresql://agentflow:{PASSWORD}@127.0.0.1:1/none")
    place.tell("doctor", *broken, *nowhere, status=1)
    place.tell("ask", "?", "--debug", *nowhere, status=2)
    place.tell("runs", "list", "--set", f"storage.url=mysql://agentflow:{PASSWORD}@127.0.0.1/none", status=2)
    place.tell("config", "show", *nowhere, "--set", f'tools.mcp.web.env.GITHUB_PAT="{SERVER_KEY}"')
    assert leaks(files(place.directory)) == []
    assert place.printed.count("[key] opens nothing") >= 4
    assert "Traceback" in place.printed
    assert "(hidden)" in place.printed


def test_the_key_of_an_mcp_server_stays_in_it(place: Place, server: ScriptedServer):
    (place.directory / "leaky_server.py").write_text(MCP_SERVER, encoding="utf-8")
    script(server, STOP)
    server.scripts["planner"] = [plan("show_key"), plan("fail")]
    server.scripts["executor"] = ['{"calls": [{}]}'] * 2
    server.scripts["verifier"] = [GO_ON, STOP]
    connection = {"transport": "stdio", "command": sys.executable, "args": ["leaky_server.py"]}
    connection["env"] = {"GITHUB_PAT": SERVER_KEY}
    shown = place.tell("ask", "?", "--json", "--set", f"tools.mcp.web={_toml(connection)}", "--set", "tools.custom=[]")
    assert shown.count("pat [key]") >= 2
    assert leaks(files(place.directory)) == []


@pytest.mark.postgres
def test_planted_keys_are_not_on_postgresql(place: Place, server: ScriptedServer, url: str):  # noqa: F811
    import psycopg

    address = url.replace("agentflow@", f"agentflow:{PASSWORD}@")
    storage = ("--set", f"storage.url={address}")
    script(server, {"status": 401, "message": f"the keys {BOTH} were revoked by {PASSWORD}"})
    place.tell("ask", f"Is {BOTH} safe from {PASSWORD}?", "--json", *storage, status=2)
    place.tell("traces", "export", "all.jsonl", *storage)
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [row for (table,) in tables for row in connection.execute(f'SELECT * FROM "{table}"').fetchall()]
    stored = [value if isinstance(value, bytes) else str(value).encode() for row in rows for value in row]
    assert sum(map(len, stored)) > 10_000
    assert any(b"[key] safe from [key]" in value for value in stored)
    assert leaks(("PostgreSQL", value) for value in stored) == []
    assert leaks(files(place.directory)) == []


def _toml(connection: Mapping[str, Any]) -> str:
    values = (
        f"{name} = {_toml(value) if isinstance(value, dict) else json.dumps(value)}"
        for name, value in connection.items()
    )
    return f"{{{', '.join(values)}}}"
