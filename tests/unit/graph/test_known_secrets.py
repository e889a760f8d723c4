"""Which values are secrets, and how they go from text."""

import json
import os
import sqlite3
import traceback
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool

from graph.config import FlowConfig, load_config
from graph.deadline import Deadline
from graph.errors import ConfigError, ModelError
from graph.known_secrets import NO_SECRETS, KnownSecrets
from graph.models.factory import open_models
from graph.records import Observation
from graph.tools.card import ToolCard
from tests.fakes import ScriptedServer, command, plan
from tests.flows import COUNTING, Events, open_flow, scripts

SECRET = "hunter2-hunter2"
_TIMINGS = {"prompt_n": SECRET, "cache_n": SECRET, "predicted_n": 1}
MESSAGES = [{"role": "system", "content": "You plan things."}, {"role": "user", "content": "What is 40 + 2?"}]


def _line(**fields: Any) -> bytes:
    """A line of a server's stream."""
    return f"data: {json.dumps(fields)}\n\n".encode()


def known(**tables) -> KnownSecrets:
    return KnownSecrets.of(FlowConfig.model_validate(tables))


@pytest.mark.parametrize(
    ("tables", "variable"),
    [
        ({"models": {"planner": {"api_key_env": "OUR_KEY"}}}, "OUR_KEY"),
        ({"models": {"default": {"base_url": "http://127.0.0.1:1/v1", "api_key_env": "OUR_KEY"}}}, "OUR_KEY"),
        ({"serve": {"api_key_env": "OUR_KEY"}}, "OUR_KEY"),
        ({}, "VLLM_API_KEY"),
        ({}, "TAVILY_API_KEY"),
        ({"models": {"generator": {"model": "openai:gpt-4o-mini"}}}, "OPENAI_API_KEY"),
        ({"models": {"generator": {"model": "claude-sonnet"}}}, "ANTHROPIC_API_KEY"),
        ({"models": {"generator": {"model": "some-new:model"}}}, "SOME_NEW_API_KEY"),
        ({"storage": {"url": "postgresql://user@host/db"}}, "PGPASSWORD"),
    ],
)
def test_variables_that_the_configuration_names(monkeypatch, tables, variable):
    monkeypatch.setenv(variable, f" {SECRET}\n")
    assert known(**tables).hide(f"a {SECRET}.") == "a [key]."
    monkeypatch.delenv(variable)
    assert known(**tables).hide(f"a {SECRET}.") == f"a {SECRET}."


def test_variables_of_providers_that_nobody_uses_are_left_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert not known(models={"default": {"model": "m", "base_url": "http://127.0.0.1:1/v1"}})


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@host/db",
        f"postgresql://host/db?user=u&password={SECRET}",
        f"mysql://user:{SECRET}@host/db",
    ],
)
def test_passwords_of_the_database(url):
    assert known(storage={"url": url}).hide(f"FATAL: {SECRET}") == "FATAL: [key]"


def test_a_setting_that_does_not_fit_is_told_without_the_password_in_it():
    with pytest.raises(ConfigError, match=r"not 'postgresql://user:\[password\]@host/db'\.$") as raised:
        load_config(overrides=[f"storage=postgresql://user:{SECRET}@host/db"])
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_password_is_known_as_it_is_and_as_it_is_written():
    secrets = known(storage={"url": f"postgresql://user:{quote('p/w @ 100%', safe='')}@host/db"})
    assert secrets.hide("p/w @ 100% p%2Fw%20%40%20100%25 p%2Fw+%40+100%25") == "[key] [key] [key]"


def test_what_stands_beside_itself_is_no_secret():
    text = "postgres, administrator and the database warehouse"
    for url in ("postgres:postgres@host/db", "administrator:administrator@host/db", "u:warehouse@host/warehouse"):
        assert known(storage={"url": f"postgresql://{url}"}).hide(text) == text


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "env": {"GITHUB_PAT": SECRET}},
        {"url": "https://mcp.test/sse", "headers": {"X-Anything": SECRET}},
        {"url": "https://mcp.test/sse", "headers": {"Authorization": f"Bearer {SECRET}"}},
        {"url": f"https://user:{SECRET}@mcp.test/sse"},
        {"url": f"https://mcp.test/sse?api_key={SECRET}&x=1"},
        {"command": "x", "args": ["--api-key", SECRET]},
        {"command": "x", "args": [f"--api-key={SECRET}"]},
        {"command": "docker", "args": ["run", "-e", f"TOKEN={SECRET}"]},
        {"command": "x", "options": {"api_key": SECRET}},
    ],
)
def test_keys_of_mcp_servers(server):
    assert known(tools={"mcp": {"web": server}}).hide(f"bad key {SECRET}") == "bad key [key]"


def test_what_is_no_key_of_an_mcp_server_stays():
    server = {
        "transport": "streamable_http",
        "url": "https://mcp.example.test/sse?language=english",
        "env": {"PATH": "/usr/local/bin", "LANG": "en_US.UTF-8", "API_URL": "https://api.example.test"},
        "headers": {"Accept": "application/json", "User-Agent": "agentflow"},
        "args": ["--verbose", "documents", "--path", "/usr/share"],
    }
    assert not known(tools={"mcp": {"web": server}})


def test_keys_in_the_headers_of_opentelemetry(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET},x-team=aaaabbbbcccc")
    assert known().hide(f"{SECRET} aaaabbbbcccc") == "[key] [key]"


@pytest.mark.parametrize("value", ["short-7", "password", "not-needed", ""])
def test_short_values_and_placeholders_are_not_searched_for(value):
    secrets = KnownSecrets([value])
    assert not secrets
    assert secrets.hide(f"a {value} b") == f"a {value} b"


def test_a_secret_is_found_as_json_writes_it():
    secret = 'käy "quoted" \\ back'
    for escaped in (json.dumps({"k": secret}), json.dumps({"k": secret}, ensure_ascii=False)):
        assert KnownSecrets([secret]).hide(escaped) == '{"k": "[key]"}'


def test_a_model_cannot_smuggle_a_secret_through_escapes():
    secrets = KnownSecrets([SECRET])
    escaped = SECRET.replace("h", "\\u0068").replace("2", "\\u0032")
    assert SECRET not in escaped
    assert SECRET in json.loads(f'"{escaped}"')
    assert (
        secrets.hide_written(f'{{"text": "{escaped}", "other": "\\u00e9"}}') == '{"text": "[key]", "other": "\\u00e9"}'
    )
    assert secrets.hide_written('{"text": "\\u0068ello"}') == '{"text": "\\u0068ello"}'


def test_the_longer_of_two_secrets_goes_whole():
    assert KnownSecrets(["abcd1234", "abcd1234-more"]).hide("abcd1234-more abcd1234") == "[key] [key]"


def test_records_change_only_where_they_must():
    secrets = KnownSecrets([SECRET])
    plain = Observation(tool="t", arguments={"a": [1, {"b": None}]}, status="ok", content="c", artifact={"d": [1.5]})
    assert secrets.hide_all(plain) is plain
    artifact = {SECRET: {"deep": [SECRET, 1]}}
    told = plain.model_copy(update={"content": f"x {SECRET}", "artifact": artifact})
    hidden = secrets.hide_all(told)
    assert (hidden.content, hidden.artifact) == ("x [key]", {"[key]": {"deep": ["[key]", 1]}})
    assert hidden.arguments is plain.arguments
    assert NO_SECRETS.hide_all(told) is told


@settings(max_examples=500)
@given(
    st.lists(st.sampled_from(["aab1", "-a", "b", "aab1aab1", "1", "a"]), max_size=12).map("".join),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_pieces_of_a_text_show_what_the_whole_would(text, cuts):
    """Wherever a text is torn, and whether a secret begins, ends or begins anew in it."""
    secrets = KnownSecrets(["aab1aab1", "aab1aab1-a", "1aab1-aa", "baab1aab1-aab1"])
    stream, ends = secrets.stream(), sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    shown = "".join([*(stream.add(piece) for piece in pieces), stream.end()])
    assert shown == secrets.hide(text)


def test_what_cannot_begin_a_secret_is_shown_at_once():
    stream = KnownSecrets([SECRET]).stream()
    assert [stream.add(piece) for piece in ("a hunt", "ing ", "hunter", "2-hunter2", "!")] == [
        "a ", "hunting ", "", "[key]", "!",
    ]  # fmt: skip


async def test_a_secret_in_what_a_model_writes_takes_its_ids_along(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    config = {"model": "test-model", "max_retries": 0}
    with ScriptedServer({"planner": [f"It is {SECRET}, of course.", "It is 42."]}, owned_by="vllm") as server:
        tables = {"models": {"default": config | {"base_url": server.url}}}
        async with open_models(FlowConfig.model_validate(tables)) as models:
            shown: list[str] = []
            told, clean = [
                await models.by_role["planner"].complete(
                    MESSAGES, schema=None, deadline=Deadline(20), turn=0, on_token=shown.append
                )
                for _ in range(2)
            ]
    assert (told.text, told.completion_ids, told.logprobs) == ("It is [key], of course.", None, None)
    assert "".join(shown) == "It is [key], of course.It is 42."
    assert told.prompt_rest is not None  # no secret stands in the prompt
    assert clean.text == "It is 42."
    assert clean.completion_ids is not None
    assert clean.logprobs is not None


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"status": 401, "message": f"bad {SECRET}"}, r"answered 401: bad \[key\]"),
        ({"text": "It", "raw": _line(error={"message": f"bad {SECRET}"})}, r"failed: bad \[key\]"),
        ({"text": "It", "raw": _line(choices=[], timings=_TIMINGS)}, r"(?s)did not send .*'\[key\]\[key\]'"),
    ],
)
async def test_a_servers_error_is_told_without_the_key(monkeypatch, reply, told):
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    with ScriptedServer({"planner": [reply]}) as server:
        tables = {"models": {"default": {"model": "test-model", "max_retries": 0, "base_url": server.url}}}
        async with open_models(FlowConfig.model_validate(tables)) as models:
            with pytest.raises(ModelError, match=told) as raised:
                await models.by_role["planner"].complete(MESSAGES, schema=None, deadline=Deadline(20), turn=0)
    assert SECRET not in str(raised.value)


async def test_a_question_is_asked_without_the_key_in_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    monkeypatch.setenv("COUNTING_FILE", str(tmp_path / "counts.txt"))
    events = Events()
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, tools={"custom": [COUNTING]}) as runner:
            done = await runner.ask(f"Is {SECRET} safe?", on_event=events, reference=[SECRET], tags=[SECRET])
        assert SECRET not in json.dumps(server.requests)
    assert (done.question, done.reference, done.tags) == ("Is [key] safe?", ("[key]",), ("[key]",))
    assert SECRET not in json.dumps([event.as_json() for event in events])


async def test_a_result_that_was_kept_before_the_key_was_known(monkeypatch, tmp_path):
    """The cache of results outlives the environment in which it was filled."""
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OTHER_VARIABLE", SECRET)
    tables = {"tools": {"custom": [f"{__name__}:tell"], "cache": True}}
    replies = scripts(planner=[plan("tell")], executor=[command({})])
    told = []
    for key in ("", SECRET):
        monkeypatch.setenv("TAVILY_API_KEY", key)
        with ScriptedServer(replies) as server:
            async with open_flow(server, **tables) as runner:
                done = await runner.ask("Tell?")
        told.append(done.turns[0].observations[0])
    assert [(found.content, found.artifact, found.cached) for found in told] == [
        (f"It is {SECRET}.", {SECRET: [SECRET]}, False),
        ("It is [key].", {"[key]": ["[key]"]}, True),
    ]


def tell() -> StructuredTool:
    async def run() -> tuple[str, dict[str, Any]]:
        return f"It is {os.environ['OTHER_VARIABLE']}.", {os.environ["OTHER_VARIABLE"]: [os.environ["OTHER_VARIABLE"]]}

    card = ToolCard(limits="-", best_practice="-")
    return StructuredTool.from_function(
        coroutine=run,
        name="tell",
        description="Tells.",
        response_format="content_and_artifact",
        metadata={"card": card},
    )


class BrokenModel:
    """A model whose client fails as nobody foresaw."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError(f"unforeseen: {SECRET}")


async def test_an_error_that_nobody_foresaw_is_stored_without_the_key(monkeypatch, tmp_path):
    """What a node raises ends up in the run's row, and LangGraph writes it beside the checkpoint."""
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    file = tmp_path / "runs.db"
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, str(file)) as runner:
            broken = replace(runner, models={**runner.models, "planner": BrokenModel(runner.models["planner"])})
            done = await broken.ask("Tell?")
    assert done.error == "RuntimeError: unforeseen: [key]"
    with closing(sqlite3.connect(file)) as connection:
        written = [kind for (kind,) in connection.execute("SELECT value FROM writes WHERE channel = '__error__'")]
    assert written == [ormsgpack.packb("RuntimeError")]
    assert not [path for path in tmp_path.iterdir() if SECRET.encode() in path.read_bytes()]
