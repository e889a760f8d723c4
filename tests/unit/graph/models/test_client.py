"""Calls of a model server, and everything that can go wrong with one (cases 5, 37, 51, 52)."""

import asyncio
import logging
import threading
import time
from itertools import pairwise

import pytest

from graph.config import FlowConfig
from graph.deadline import Deadline, OutOfTimeError
from graph.errors import ConfigError, ModelError
from graph.models.factory import open_models
from graph.prompt_ids import prompt_ids_of
from graph.records import ModelCall
from tests.fakes import ScriptedServer

MESSAGES = [{"role": "system", "content": "You plan things."}, {"role": "user", "content": "What is 40 + 2?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CHUNK = b'data: {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": %s}\n\n'


async def call(
    server: ScriptedServer, *, schema=None, deadline: float = 20, times: int = 1, role="planner", **settings
):
    """Return the last of `times` calls."""
    defaults = {"model": "test-model", "base_url": server.url, "max_retries": 0, "timeout": 10}
    config = FlowConfig.model_validate({"models": {"default": defaults | settings}})
    async with open_models(config) as models:
        for _ in range(times):
            done = await models.by_role[role].complete(
                MESSAGES, schema=schema, deadline=Deadline(deadline), turn=0, on_token=None
            )
    return done


def planning(*replies, **options) -> ScriptedServer:
    return ScriptedServer({"planner": replies}, **options)


async def test_what_a_call_records():
    with planning("The answer is 42.") as server:
        done = await call(server, temperature=0.3, seed=7)
    assert (done.text, done.finish_reason, done.role, done.turn) == ("The answer is 42.", "stop", "planner", 0)
    assert done.usage.completion == len(server.tokenize("The answer is 42.")) + 1
    assert done.usage.prompt == len(server.prompt_ids(server.requests[0]))
    assert done.seconds >= done.first_token_seconds >= 0
    assert done.at == pytest.approx(time.time(), abs=60)
    assert done.sampling == {"temperature": 0.3, "top_p": 1.0, "max_tokens": 512, "seed": 7, "constrained": False}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 599])
async def test_what_may_pass_is_tried_again(status):
    """Case 51."""
    failure = {"status": status, "headers": {"Retry-After": "0.05"}}
    with planning(failure, failure, "42") as server:
        done = await call(server, max_retries=2)
    assert done.text == "42"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422])
async def test_what_will_not_pass_is_never_tried_again(status):
    """Case 51."""
    refused = pytest.raises(ModelError, match=rf"answered {status}: it will not pass\.$")
    with planning({"status": status, "message": "it will not pass."}, "42") as server, refused as raised:
        await call(server, max_retries=5)
    assert len(server.requests) == 1
    assert not raised.value.transient


async def test_retry_after_is_honoured():
    """Case 51."""
    with planning({"status": 429, "headers": {"Retry-After": "1.2"}}, "42") as server:
        await call(server, max_retries=1)
    assert server.times[1] - server.times[0] >= 1.2


async def test_retries_back_off_with_jitter():
    """Case 51: without Retry-After the waits grow, and two clients do not come back in step."""
    servers = [planning({"status": 503}, {"status": 503}, "42") for _ in range(3)]
    with servers[0], servers[1], servers[2]:
        await asyncio.gather(*(call(server, max_retries=2) for server in servers))
    waits = [[b - a for a, b in pairwise(server.times)] for server in servers]
    assert all(first > 0.2 and second > 0.4 for first, second in waits)
    assert len({round(first, 2) for first, _ in waits}) > 1


async def test_a_connection_that_is_lost_before_an_answer_is_tried_again():
    with planning({"drop": True}, "42") as server:
        assert (await call(server, max_retries=1)).text == "42"


async def test_a_server_that_fails_for_good_is_a_typed_error():
    """Case 5."""
    failed = pytest.raises(ModelError, match=r"planner's model server at http.*answered 500: the engine died\.")
    failure = {"status": 500, "message": "the engine died", "headers": {"Retry-After": "0.05"}}
    with planning(failure, failure, failure) as server, failed:
        await call(server, max_retries=2)
    assert len(server.requests) == 3


BROKEN = {
    "an error object with status 200": {"json": {"error": {"message": "out of memory", "code": 500}}},
    "an error string": {"json": {"error": "out of memory"}},
    "a list": {"json": [1]},
    "a completion that is no stream": {"json": {"choices": [{"message": {"content": "42"}}]}},
    "an error object in the stream": {"text": "The answer is", "error": 2},
    "an error object first": {"text": "The answer is", "error": 0},
    "no JSON in the stream": {"text": "42", "raw": b"data: <html>\n\n"},
    "null in the stream": {"text": "42", "raw": b"data: null\n\n"},
    "a list in the stream": {"text": "42", "raw": b"data: [1]\n\n"},
    "a connection lost at once": {"text": "The answer is 42.", "break": 0},
    "a connection lost in the middle": {"text": "The answer is 42.", "break": 2},
    "an end without a finish": {"text": "The answer is 42.", "finish": None, "usage": False},
}


@pytest.mark.parametrize("idle_seconds", [None, 5.0], ids=["closing", "keep-alive"])
@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_never_an_answer(reply, idle_seconds):
    """Cases 5 and 51: an error that may pass, so that the flow asks again."""
    with planning(reply, idle_seconds=idle_seconds) as server, pytest.raises(ModelError) as raised:
        await call(server)
    assert raised.value.transient
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        {"text": "42", "raw": CHUNK % b"null"},
        {"text": "42", "raw": CHUNK % b"[]"},
        {"text": "42", "raw": b": a comment\n\n"},
        {"text": "42", "usage": False},
        {"text": "42", "finish": None},
        {"text": "42", "finish": "length"},
    ],
)
async def test_oddities_that_harm_nothing(reply):
    with planning(reply) as server:
        assert (await call(server)).text == "42"


async def test_an_empty_answer_is_one():
    with planning({"text": ""}) as server:
        assert (await call(server)).text == ""


async def test_half_a_surrogate_pair_does_not_enter_the_record():
    delta = b'[{"index": 0, "delta": {"content": " \\ud83d\\u0000!"}}]'
    with planning({"text": "42", "raw": CHUNK % delta}) as server:
        assert (await call(server)).text == "42 \ufffd!"


async def test_idle_connections_that_the_server_closes_cost_nothing():
    """Case 37: one request acted on per call."""
    with planning(*["42"] * 4, idle_seconds=0.05) as server:
        defaults = {"model": "test-model", "base_url": server.url, "max_retries": 0}
        async with open_models(FlowConfig.model_validate({"models": {"default": defaults}})) as models:
            for _ in range(4):
                await models.by_role["planner"].complete(MESSAGES, schema=None, deadline=Deadline(20), turn=0)
                await asyncio.sleep(0.2)
    assert len(server.requests) == 4


async def test_connections_are_reused_where_the_server_keeps_them():
    with planning(*["42"] * 5, idle_seconds=5.0) as server:
        await call(server, times=5)
    assert len(server.requests) == 5
    assert server.connections == 1


async def test_hundreds_of_calls_at_once_do_not_wait_for_each_other():
    """The server answers none before all have arrived."""
    everybody = threading.Barrier(120, timeout=60)

    def wait(_body):
        everybody.wait()
        return "42"

    with ScriptedServer({"planner": [wait]}, repeat=True) as server:
        defaults = {"model": "test-model", "base_url": server.url, "max_retries": 0}
        async with open_models(FlowConfig.model_validate({"models": {"default": defaults}})) as models:
            model = models.by_role["planner"]
            calls = [model.complete(MESSAGES, schema=None, deadline=Deadline(60), turn=0) for _ in range(120)]
            assert {call.text for call in await asyncio.gather(*calls)} == {"42"}


async def test_a_call_ends_with_the_runs_time():
    with planning({"text": "The answer is 42.", "delay": 20}) as server:
        start = time.monotonic()
        with pytest.raises(OutOfTimeError):
            await call(server, deadline=0.3, max_retries=3)
    assert time.monotonic() - start < 10


async def test_a_server_that_says_nothing_is_given_up():
    failed = pytest.raises(ModelError, match="failed: Request timed out")
    with planning({"text": "42", "delay": 20}) as server, failed:
        await call(server, timeout=0.3)


async def test_what_is_asked_is_what_is_sent():
    with planning("42") as server:
        await call(
            server,
            temperature=0.4,
            top_p=0.8,
            max_tokens=99,
            seed=5,
            extra={"top_k": 7, "min_p": 0.1},
            structured="off",
        )
    sent = server.requests[0]
    expected = {"temperature": 0.4, "top_p": 0.8, "seed": 5, "top_k": 7, "min_p": 0.1, "model": "test-model"}
    assert {name: sent.get(name) for name in expected} == expected
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 99
    assert sent["messages"] == MESSAGES
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}


NEUTRAL = {
    "vllm": {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    "llamacpp": {"top_k": 0, "min_p": 0.0},
    "test": {},
}
"""What is sent although nobody asked, as these servers would otherwise fill in the defaults of the model's files."""
PENALTIES = {"presence_penalty": 0.5, "frequency_penalty": -0.25, "repetition_penalty": 1.1, "top_k": 3}


@pytest.mark.parametrize("owner", ["vllm", "llamacpp", "test"])
async def test_every_sampling_parameter_is_sent_as_asked_and_no_other(owner):
    with planning("42", "42", owned_by=owner) as server:
        plain = await call(server, temperature=0.7, structured="off")
        asked = await call(server, temperature=0.4, top_p=0.8, seed=5, structured="off", extra=PENALTIES)
    names = {"temperature", "top_p", "seed", "min_p", "stop", "logit_bias", "response_format", *PENALTIES}
    sent = [{name: body[name] for name in names & body.keys()} for body in server.requests]
    assert sent[0] == {"temperature": 0.7, "top_p": 1.0, **NEUTRAL[owner]}
    assert sent[1] == {"temperature": 0.4, "top_p": 0.8, "seed": 5, **NEUTRAL[owner], **PENALTIES}
    for done, body in ((plain, sent[0]), (asked, sent[1])):  # and as recorded
        recorded = {name: done.sampling[name] for name in ("temperature", "top_p", "seed")} | done.sampling.get(
            "extra", {}
        )
        assert {name: value for name, value in recorded.items() if value is not None} == body


@pytest.mark.parametrize(
    ("structured", "owner", "role", "constrained"),
    [
        ("off", "test", "planner", False),
        ("json_schema", "test", "planner", True),
        ("auto", "test", "planner", True),
        ("auto", "vllm", "planner", False),
        ("json_schema", "vllm", "planner", True),
        ("auto", "vllm", "verifier", True),
        ("off", "vllm", "verifier", False),
        ("auto", "llamacpp", "planner", True),
    ],
)
async def test_constrained_decoding(structured, owner, role, constrained):
    with ScriptedServer({"planner": ["42"]}, owned_by=owner) as server:
        done = await call(server, schema=SCHEMA, structured=structured, role=role)
    asked = server.requests[0].get("response_format")
    assert asked == ({"type": "json_schema", "json_schema": {"name": role, "schema": SCHEMA}} if constrained else None)
    assert done.sampling["constrained"] is constrained


async def test_free_text_is_never_constrained():
    with planning("42") as server:
        done = await call(server, schema=None, structured="json_schema")
    assert "response_format" not in server.requests[0]
    assert done.sampling["constrained"] is False


async def test_token_ids_and_logprobs_are_asked_of_vllm_only():
    with planning("42") as server:
        done = await call(server)
    assert not {"return_token_ids", "logprobs"} & set(server.requests[0])
    assert (done.prompt_rest, done.completion_ids, done.logprobs, done.policy) == (None, None, None, None)
    with planning("The answer is 42.", owned_by="vllm") as server:
        done = await call(server)
    sent = server.requests[0]
    assert (sent["return_token_ids"], sent["logprobs"]) == (True, True)
    assert list(done.prompt_rest) == server.prompt_ids(sent)
    assert list(done.completion_ids) == [token for token, _ in server.tokenize("The answer is 42.")] + [-1]
    assert len(done.logprobs) == len(done.completion_ids)
    assert done.policy == "test-model"


@pytest.mark.parametrize("idle_seconds", [None, 5.0])
async def test_ids_without_logprobs_are_left_out(idle_seconds):
    """Lengths are equal, or there are none."""
    extra = b'[{"index": 0, "delta": {"content": "!"}, "token_ids": [5, 6]}]'
    with planning({"text": "42", "raw": CHUNK % extra}, owned_by="vllm", idle_seconds=idle_seconds) as server:
        done = await call(server)
    assert (done.text, done.completion_ids, done.logprobs) == ("42!", None, None)


def test_prompt_ids_come_back_from_what_is_shared():
    def make_call(role, shared, rest):
        return ModelCall(role=role, turn=0, model="m", prompt_hash="", text="", prompt_shared=shared, prompt_rest=rest)

    calls = [
        make_call("planner", 0, (1, 2, 3)),
        make_call("verifier", 0, (9,)),
        make_call("planner", 2, (7, 8)),
        make_call("planner", None, None),
        make_call("planner", 4, ()),
        make_call("planner", 1, (5,)),
    ]
    assert prompt_ids_of(calls, "planner") == [[1, 2, 3], [1, 2, 7, 8], None, [1, 2, 7, 8], [1, 5]]
    assert prompt_ids_of(calls, "verifier") == [[9]]
    assert prompt_ids_of(calls, "nobody") == []


async def test_a_key_is_sent_and_stays_out_of_errors_and_logs(monkeypatch, caplog):
    """Servers like to repeat the key that they refuse."""
    key = "sk-planted-4711"
    monkeypatch.setenv("TEST_KEY", key)
    caplog.set_level(logging.DEBUG)
    with planning(
        "42", {"status": 401, "message": f"bad key {key}"}, {"json": {"error": {"message": key}}}, key=key
    ) as server:
        done = await call(server, api_key_env="TEST_KEY")
        assert server.headers[0]["authorization"] == f"Bearer {key}"
        for _ in range(2):
            with pytest.raises(ModelError) as raised:
                await call(server, api_key_env="TEST_KEY")
            assert key not in str(raised.value)
    assert key not in done.model_dump_json()
    assert key not in caplog.text


async def test_a_missing_key_is_named(monkeypatch):
    """Case 52."""
    monkeypatch.delenv("TEST_KEY", raising=False)
    missing = pytest.raises(ConfigError, match=r"TEST_KEY is not set: put the key for test-model into it or \.env")
    with planning(key="k") as server, missing:
        await call(server, api_key_env="TEST_KEY")
