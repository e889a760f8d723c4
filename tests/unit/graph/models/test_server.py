"""What a server says about itself, and what is said when it does not (case 52)."""

import socket

import httpx
import pytest

from graph.config import ROLES, FlowConfig
from graph.errors import ConfigError
from graph.models.factory import open_models
from graph.models.server import probe_server
from tests.fakes import ScriptedServer


def dead_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


async def probe(url: str, key: str | None = None, *, key_name: str | None = None):
    async with httpx.AsyncClient() as http:
        return await probe_server(url, key, http, key_name=key_name)


async def open_at(**settings):
    async with open_models(FlowConfig.model_validate({"models": settings})) as models:
        return models


@pytest.mark.parametrize(("owner", "kind"), [("vllm", "vllm"), ("llamacpp", "llamacpp"), ("openai", "other")])
async def test_the_kind_is_told_from_the_owner(owner, kind):
    with ScriptedServer({}, models=("a", "b"), owned_by=owner, context=4096) as server:
        found = await probe(server.url)
    assert (found.kind, found.models, found.context) == (kind, ("a", "b"), 4096)


async def test_each_role_has_the_context_of_its_own_server():
    with ScriptedServer({}, context=4096) as small, ScriptedServer({}, context=9000) as large:
        tables = {"default": {"model": "test-model", "base_url": large.url}, "verifier": {"base_url": small.url}}
        models = await open_at(**tables)
    assert {role: model.context for role, model in models.by_role.items()} == dict.fromkeys(ROLES, 9000) | {
        "verifier": 4096
    }


@pytest.mark.parametrize("url", [dead_address(), "http://nowhere.invalid/v1", "127.0.0.1:80/v1", "ftp://a/v1", "", "x"])
async def test_no_server_at_the_address(url):
    """Case 52."""
    with pytest.raises(ConfigError, match=r"No model server answers at .*: start it, or change base_url") as raised:
        await probe(url)
    assert "\n" not in str(raised.value)


async def test_a_wrong_model_name_is_answered_with_the_right_ones():
    """Case 52."""
    with (
        ScriptedServer({}, models=("qwen-7b", "qwen-7b-tuned")) as server,
        pytest.raises(ConfigError, match=r"does not serve 'gwen'.*models\.\w+\.model to one of qwen-7b, qwen-7b-t"),
    ):
        await open_at(default={"model": "gwen", "base_url": server.url})


async def test_a_missing_and_a_wrong_key():
    """Case 52."""
    with ScriptedServer({}, key="right") as server:
        with pytest.raises(ConfigError, match=r"wants a key \(401\): name its variable in api_key_env"):
            await probe(server.url)
        with pytest.raises(ConfigError, match=r"wants a key \(401\): put it into MY_KEY") as raised:
            await probe(server.url, "wrong-planted", key_name="MY_KEY")
        assert "planted" not in str(raised.value)
        assert (await probe(server.url, "right")).models == ("test-model",)


async def test_two_roles_at_one_server_use_their_own_keys(monkeypatch):
    monkeypatch.setenv("RIGHT_KEY", "right")
    with ScriptedServer({}, key="right") as server:
        tables = {"default": {"model": "test-model", "base_url": server.url, "api_key_env": "RIGHT_KEY"}}
        await open_at(**tables)
        monkeypatch.setenv("WRONG_KEY", "wrong")
        with pytest.raises(ConfigError, match="put it into WRONG_KEY"):
            await open_at(**tables, planner={"api_key_env": "WRONG_KEY"})


async def test_a_server_without_a_list_of_models_is_taken_as_it_is():
    with ScriptedServer({}) as server:
        found = await probe(server.url.replace("/v1", "/elsewhere"))
        assert found.models == ("test-model",)
        models = await open_at(default={"model": "any", "base_url": server.url.replace("/v1", "/v1/nothing#")})
    assert models.by_role["planner"].context is None


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("nobody:model", "cannot be opened|needs a package"),
        ("just-a-name", "cannot be opened|needs a package"),
        ("openai:gpt-5", "cannot be opened.*(?i:key)"),
    ],
)
async def test_providers_that_cannot_be_opened(model, sentence, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=rf"models\.\w+\.model '{model}' ({sentence})") as raised:
        await open_at(default={"model": model})
    assert "\n" not in str(raised.value)
