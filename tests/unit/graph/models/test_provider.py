"""Models that LangChain's init_chat_model opens: what they are asked, and what is recorded of it."""

import json
from typing import Any

import langchain.chat_models
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field, SecretStr

from graph.config import FlowConfig
from graph.deadline import Deadline
from graph.errors import ConfigError, ModelError
from graph.models.factory import check_role, open_models
from tests.fakes import ScriptedServer

MESSAGES = [{"role": "system", "content": "You plan things."}, {"role": "user", "content": "What is 40 + 2?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
ANSWER = '{"a": "42"}'


async def call(*, model="openai:gpt-4o-mini", schema=SCHEMA, **settings):
    config = FlowConfig.model_validate({"models": {"default": {"model": model, "max_retries": 0, **settings}}})
    async with open_models(config) as models:
        planner = models.by_role["planner"]
        return await planner.complete(MESSAGES, schema=schema, deadline=Deadline(20), turn=0)


@pytest.fixture
def server(monkeypatch):
    with ScriptedServer({"planner": [ANSWER]}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield server


@pytest.mark.parametrize(("structured", "constrained"), [("json_schema", True), ("auto", True), ("off", False)])
async def test_an_openai_model_is_sent_the_schema_and_the_seed(server, structured, constrained):
    done = await call(structured=structured, seed=7)
    sent = server.requests[0]
    asked = {"type": "json_schema", "json_schema": {"name": "planner", "schema": SCHEMA}}
    assert sent.get("response_format") == (asked if constrained else None)
    assert sent["seed"] == 7
    assert (done.text, done.sampling["constrained"], done.sampling["seed"]) == (ANSWER, constrained, 7)


async def test_an_openai_model_without_a_schema_or_seed_is_sent_neither(server):
    done = await call(schema=None, structured="json_schema")
    assert not {"response_format", "seed"} & set(server.requests[0])
    assert (done.sampling["constrained"], done.sampling["seed"]) == (False, None)


async def test_further_fields_of_an_openai_model_are_sent_with_the_schema(server):
    await call(extra={"extra_body": {"top_k": 5}})
    sent = server.requests[0]
    assert (sent["top_k"], sent["response_format"]["type"]) == (5, "json_schema")


@pytest.mark.parametrize("padding", [0, 270])
async def test_a_providers_own_key_stays_out_of_errors(server, monkeypatch, padding):
    """Servers like to repeat the key that they refuse; a message that is cut may end in the middle of it."""
    key = "sk-planted-4711"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.scripts["planner"] = [{"status": 401, "message": f"{'.' * padding} {key * 3} is wrong"}]
    with pytest.raises(ModelError, match=r"answered 401: .*\[key\]") as raised:
        await call()
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert "sk-" not in str(raised.value)


class Plain(BaseChatModel):
    """A provider that knows no schema."""

    bound: list[dict[str, Any]] = Field(default_factory=list)
    provider_key: SecretStr = SecretStr("sk-planted-4711")
    failure: str = ""

    @property
    def _llm_type(self) -> str:
        return "own"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def _message(self, kwargs: dict[str, Any]) -> AIMessageChunk:
        return AIMessageChunk(content=ANSWER)

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        if self.failure:
            raise LookupError(self.failure)
        self.bound.append(kwargs)
        yield ChatGenerationChunk(message=self._message(kwargs))


class ByTools(Plain):
    """A provider that is held to a schema by having to call a tool, which LangChain does for those with tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=tools, **kwargs)

    def _message(self, kwargs: dict[str, Any]) -> AIMessageChunk:
        if "tools" not in kwargs:
            return super()._message(kwargs)
        chunk = {"name": kwargs["tools"][0]["title"], "args": ANSWER, "id": "1", "index": 0, "type": "tool_call_chunk"}
        return AIMessageChunk(content="", tool_call_chunks=[chunk])


class WithSeed(Plain):
    """A provider with a seed."""

    seed: int | None = None

    def _message(self, kwargs: dict[str, Any]) -> AIMessageChunk:
        return AIMessageChunk(content=f"seed {self.seed}")


@pytest.fixture
def provide(monkeypatch):
    """Stands in for a provider's package."""

    def provide(chat: BaseChatModel) -> BaseChatModel:
        monkeypatch.setattr(langchain.chat_models, "init_chat_model", lambda *_args, **_settings: chat)
        return chat

    return provide


@pytest.mark.parametrize("structured", ["auto", "json_schema"])
async def test_another_provider_is_held_to_the_schema_in_its_own_way(provide, structured):
    chat = provide(ByTools())
    done = await call(model="own:m", structured=structured, seed=7)
    bound = chat.bound[0]
    assert bound["tools"][0]["properties"] == SCHEMA["properties"]
    assert bound["tool_choice"] == "any"
    assert json.loads(done.text) == {"a": "42"}
    assert (done.sampling["constrained"], done.sampling["seed"]) == (True, None)


async def test_another_provider_is_not_held_to_a_schema_when_that_is_off(provide):
    chat = provide(ByTools())
    done = await call(model="own:m", structured="off")
    assert (chat.bound, done.text, done.sampling["constrained"]) == ([{}], ANSWER, False)


async def test_a_provider_that_knows_no_schema_is_asked_without(provide):
    chat = provide(Plain())
    done = await call(model="own:m")
    assert (chat.bound, done.text, done.sampling["constrained"]) == ([{}], ANSWER, False)
    with pytest.raises(ConfigError, match=r"structured is json_schema, but 'own:m' cannot be held.*auto or off"):
        await call(model="own:m", structured="json_schema")
    config = FlowConfig.model_validate({"models": {"default": {"model": "own:m", "structured": "json_schema"}}})
    with pytest.raises(ConfigError, match=r"models\.planner\.structured"):
        await check_role("planner", config.models.of("planner"))


async def test_a_seed_is_recorded_where_the_provider_takes_one(provide):
    provide(WithSeed())
    done = await call(model="own:m", seed=7)
    assert (done.text, done.sampling["seed"]) == ("seed 7", 7)


async def test_another_providers_key_stays_out_of_errors(provide):
    provide(Plain(failure="sk-planted-4711 is wrong"))
    with pytest.raises(ModelError, match=r"failed: \[key\] is wrong"):
        await call(model="own:m")


async def test_a_provider_that_fails_without_a_word_is_named(monkeypatch):
    class SilentError(Exception):
        """Says nothing."""

    def fail(*_args: Any, **_settings: Any) -> BaseChatModel:
        raise SilentError

    monkeypatch.setattr(langchain.chat_models, "init_chat_model", fail)
    with pytest.raises(ConfigError, match=r"'own:m' cannot be opened: SilentError"):
        await call(model="own:m")
