"""Counting tokens: a bound without a request, and the servers' own counts."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.models.server import ServerInfo, probe_server
from graph.models.tokens import TokenCounter, counter_for, most_tokens, most_tokens_after
from tests.byte_server import ByteServer
from tests.fakes import ScriptedServer

ASKED = [{"role": "system", "content": "You plan."}, {"role": "user", "content": "Divide 1234 by 7 日本"}]


def talk(*contents: str):
    return [{"role": "user" if index % 2 else "system", "content": text} for index, text in enumerate(contents)]


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_the_bound_holds_where_every_byte_is_a_token(contents):
    messages = talk(*contents)
    assert most_tokens(messages) >= sum(len(text.encode()) for text in contents)


def test_the_bound_holds_where_the_tokenizer_composes_characters_first():
    """U+1D160 is 4 bytes, and 12 once a tokenizer has normalised it."""
    assert most_tokens(talk("\U0001d160" * 500)) > 6_000


@given(st.lists(st.text(), min_size=1, max_size=3), st.text(), st.text())
def test_the_bound_after_an_earlier_call_holds_too(contents, added, ending):
    """Both ways: text is added in the middle of the last message, and taken away again."""
    with_tail, grown = talk(*contents[:-1], contents[-1] + ending), talk(*contents[:-1], contents[-1] + added + ending)
    for before, now in ((with_tail, grown), (grown, with_tail)):
        counted = sum(len(m["content"].encode()) for m in before)
        assert most_tokens_after(now, before, counted) >= sum(len(m["content"].encode()) for m in now)


def test_the_bound_after_an_earlier_call_is_close():
    before = talk("s" * 3000, "Memory:\nTurn 1\n" + "word " * 800 + "\nTurns left: 9")
    now = talk("s" * 3000, "Memory:\n(1 earlier turns left out)\n" + "word " * 800 + "\nResult: new\nTurns left: 8")
    assert 1_500 < most_tokens_after(now, before, 1_500) < 1_600
    # Within a line tokens may fall otherwise, and a line may stand there twice: neither is taken as counted.
    assert most_tokens_after(talk("a" * 900 + "b"), talk("a" * 900), 113) > 1_000
    assert most_tokens_after(talk("a" * 900 + "\n" + "a" * 900), talk("a" * 900), 113) > 1_000


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
async def test_a_server_counts_what_it_will_be_sent(owner):
    with ScriptedServer({}, owned_by=owner, context=900) as server:
        async with httpx.AsyncClient() as http:
            found = await probe_server(server.url, None, http, key_name=None)
            counter = counter_for(found, "test-model", http, key=None, extra={})
            counted = [await counter.count(ASKED) for _ in range(3)]
    assert counted == [len(server.prompt_ids({"messages": ASKED}))] * 3
    assert server.counts == {"vllm": 1, "llamacpp": 2}[owner]  # the same messages are counted once
    assert (found.context, found.context_of("test-model"), found.context_of("planner@v1")) == (900, 900, 900)


async def test_nobody_counts_for_other_servers():
    async with httpx.AsyncClient() as http:
        found = ServerInfo("http://127.0.0.1:1/v1", "other", (), 4096)
        assert counter_for(found, "m", http, key=None, extra={}) is None


class Refusing(ScriptedServer):
    answer = (500, {"error": {"message": "busy"}})

    def endpoint(self, path, body):
        return self.answer if path.endswith("tokenize") else None


@pytest.mark.parametrize(
    "answer",
    [(500, {"error": "busy"}), (404, {"detail": "Not Found"}), (200, ["?"]), (200, {}), (200, {"count": None})],
)
async def test_a_count_that_fails_is_no_count(answer):
    with Refusing({}, owned_by="vllm") as server:
        server.answer = answer
        async with httpx.AsyncClient() as http:
            counter = TokenCounter(ServerInfo(server.url, "vllm", (), None), "m", http)
            assert await counter.count(ASKED) is None
            server.answer = (200, {"count": 7})
            assert await counter.count(ASKED) == 7


async def test_the_servers_key_and_template_go_with_the_request():
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"count": 3})

    extra = {"chat_template_kwargs": {"enable_thinking": False}, "min_p": 0.0}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        counter = TokenCounter(ServerInfo("http://box/v1", "vllm", (), None), "m", http, key="k", extra=extra)
        assert await counter.count(ASKED) == 3
    (request,) = seen
    assert (str(request.url), request.headers["authorization"]) == ("http://box/tokenize", "Bearer k")
    assert b'"chat_template_kwargs":{"enable_thinking":false}' in request.content
    assert b"min_p" not in request.content


async def test_the_context_of_each_model_on_a_server():
    def answer(request: httpx.Request) -> httpx.Response:
        about = [
            {"id": "a", "max_model_len": 4096},
            {"id": "b", "max_model_len": 900},
            {"id": "a-tuned", "parent": "a"},
        ]
        return httpx.Response(200, json={"data": [{"owned_by": "vllm", **model} for model in about]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        found = await probe_server("http://box/v1", None, http, key_name=None)
    assert [found.context_of(model) for model in ("a", "b", "a-tuned")] == [4096, 900, 900]


def test_bytes_are_what_the_byte_server_counts():
    with ByteServer({}, owned_by="vllm") as server:
        assert len(server.prompt_ids({"messages": ASKED})) <= most_tokens(ASKED)
