"""Which policy a call is sent to and records, on a server that holds what it was told to."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from graph.config import FlowConfig
from graph.deadline import Deadline
from graph.errors import ConfigError, ModelError
from graph.models.client import RoleModel
from graph.models.factory import open_models
from graph.policies.held_weights import HeldWeights
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.records import ModelCall, StopReason
from tests.fakes import ScriptedServer
from tests.flows import COUNTING, scripts
from tests.policy_directories import adapter_directory, weights_directory
from tests.policy_server import PolicyServer

MESSAGES = [{"role": "system", "content": "You plan things."}, {"role": "user", "content": "What is 40 + 2?"}]


@pytest.fixture
def registry(tmp_path: Path) -> PolicyRegistry:
    """planner@v1 and @v2 are adapters of /models/base, @v3 is its weights, @v4 an adapter of another model."""
    registry = PolicyRegistry(tmp_path / "policies")
    for number in (1, 2):
        registry.add(adapter_directory(tmp_path / f"adapter{number}", base="/models/base"))
    registry.add(weights_directory(tmp_path / "weights"), base_model="/models/base")
    registry.add(adapter_directory(tmp_path / "foreign", base="/models/other"))
    return registry


def settings(server: ScriptedServer, registry: PolicyRegistry, *, use: str = "promoted", model: str = "planner"):
    defaults = {"model": model, "base_url": server.url, "max_retries": 0, "timeout": 10}
    policies = {"directory": str(registry.directory), "use": use}
    tools = {"enabled": [], "custom": [COUNTING]}
    return FlowConfig.model_validate({"models": {"default": defaults}, "policies": policies, "tools": tools})


def served(**options) -> PolicyServer:
    return PolicyServer({"planner": ["42"]}, repeat=True, **options)


@asynccontextmanager
async def planner(server: ScriptedServer, registry: PolicyRegistry, **options) -> AsyncIterator[RoleModel]:
    notices = options.pop("notices", None)
    say = notices.append if notices is not None else None
    async with open_models(settings(server, registry, **options), on_notice=say) as models:
        yield models.by_role["planner"]


async def call(model: RoleModel, *, on_token=None) -> ModelCall:
    return await model.complete(MESSAGES, schema=None, deadline=Deadline(20), turn=0, on_token=on_token)


def asked(server: ScriptedServer) -> list[str]:
    return [body["model"] for body in server.requests]


async def test_each_call_goes_to_what_is_promoted_then(registry):
    with served() as server:
        async with planner(server, registry) as model:
            calls = []
            for promoted in (None, "planner@v1", "planner@v2", "planner@v2", "planner@v1", None):
                registry.promote(promoted)
                calls.append(await call(model))
    expected = ["planner", "planner@v1", "planner@v2", "planner@v2", "planner@v1", "planner"]
    assert [done.policy for done in calls] == expected
    assert asked(server) == expected
    assert {done.model for done in calls} == {"planner"}
    assert server.loads == ["planner@v1", "planner@v2"], "each is loaded once"
    assert server.adapters["planner@v1"] == str(registry.path("planner@v1"))


async def test_only_the_planner_follows_the_promotion(registry):
    registry.promote("planner@v1")
    with served() as server:
        async with open_models(settings(server, registry)) as models:
            for role, model in models.by_role.items():
                done = await call(model)
                assert done.policy == ("planner@v1" if role == "planner" else "planner")
    assert asked(server).count("planner@v1") == 1


@pytest.mark.parametrize(("use", "policy"), [("base", "planner"), ("planner@v2", "planner@v2")])
async def test_a_choice_in_the_settings_stands_whatever_is_promoted(registry, use, policy):
    registry.promote("planner@v1")
    with served() as server:
        async with planner(server, registry, use=use) as model:
            assert (await call(model)).policy == policy
    assert asked(server) == [policy]


async def test_a_server_that_lost_the_adapter_is_given_it_again(registry):
    registry.promote("planner@v1")
    with served() as server:
        async with planner(server, registry) as model:
            await call(model)
            server.adapters.clear()  # as a restart does
            with pytest.raises(ModelError, match="has lost the policy planner@v1") as caught:
                await call(model)
            assert caught.value.transient
            assert (await call(model)).policy == "planner@v1"
    assert server.loads == ["planner@v1"] * 2


async def test_a_run_survives_the_loss_of_its_adapter(registry):
    from graph.runner import open_runner

    registry.promote("planner@v1")
    with PolicyServer(scripts()) as server:
        async with open_runner(settings(server, registry)) as runner:
            server.adapters.clear()
            done = await runner.ask("What is 40 + 2?")
    assert (done.error, done.stop) == (None, StopReason.VERIFIED)
    assert [found.policy for found in done.calls if found.role == "planner"] == ["planner@v1"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("planner@v9", "planner@v9"),
        ("planner@v4", "planner@v4 cannot be used: .*/models/other"),
        ("planner", "names no policy version"),
    ],
)
async def test_a_version_that_cannot_be_used_is_refused_at_the_start(registry, use, message):
    with served() as server, pytest.raises(ConfigError, match=message):
        async with planner(server, registry, use=use):
            pass


async def test_a_promoted_adapter_of_another_model_is_left_aside_with_one_notice(registry):
    registry.promote("planner@v4")
    notices: list[str] = []
    with served() as server:
        async with planner(server, registry, notices=notices) as model:
            calls = [await call(model) for _ in range(3)]
    assert {done.policy for done in calls} == {"planner"}
    assert len(notices) == 1
    assert "planner@v4 is not used" in notices[0]


async def test_an_adapter_that_the_server_refuses_is_a_failure_and_never_the_model_as_it_is(registry):
    registry.promote("planner@v1")
    with served() as server:
        server.load_refusal = "LoRA rank 512 is greater than max_lora_rank"
        with pytest.raises(ModelError, match="rank 512"):
            async with planner(server, registry):
                pass
    assert asked(server) == []


async def test_full_weights_are_used_where_the_server_holds_them(registry):
    registry.promote("planner@v3")
    with served(weights="planner@v3") as server:
        async with planner(server, registry) as model:
            done = await call(model)
    assert (done.policy, asked(server)) == ("planner@v3", ["planner"])


@pytest.mark.parametrize(
    ("held", "promoted", "message"),
    [
        ("default", "planner@v3", "agentflow policies load planner@v3"),
        (None, "planner@v3", "agentflow policies load planner@v3"),
        ("planner@v3", None, "holds the weights of planner@v3, but the model as it is"),
        ("planner@v3", "planner@v1", "holds the weights of planner@v3, but the model as it is"),
    ],
)
async def test_weights_that_the_server_does_not_hold_are_never_taken_for_others(registry, held, promoted, message):
    registry.promote(promoted)
    with served(weights=held) as server, pytest.raises(ModelError, match=message):
        async with planner(server, registry):
            pass
    assert asked(server) == []


@pytest.mark.parametrize("after", ["planner@v3#2", "planner@v1#2", "loading#2", "default"])
@pytest.mark.parametrize("role", ["planner", "verifier"])
async def test_a_call_during_which_the_weights_were_replaced_is_made_again(registry, role, after):
    """Also by the same version: something else may have been in between."""
    registry.promote("planner@v3")
    with served(weights="planner@v3#1") as server:
        async with open_models(settings(server, registry)) as models:
            with pytest.raises(ModelError, match="replaced during a call") as caught:
                await call(models.by_role[role], on_token=lambda _text: setattr(server, "weights", after))
    assert caught.value.transient


async def test_a_call_waits_for_the_end_of_a_push(registry):
    registry.promote("planner@v3")
    with served(weights="loading#1") as server:

        async def finish() -> None:
            await asyncio.sleep(0.5)
            assert server.requests == []
            server.weights = "planner@v3#1"

        push = asyncio.create_task(finish())
        async with planner(server, registry) as model:  # opening waits as well
            await push
            done = await call(model)
    assert done.policy == "planner@v3"


async def test_a_push_that_was_broken_off_is_named():
    with served(weights="loading#1") as server:
        async with httpx.AsyncClient() as http:
            weights = HeldWeights(VLLMControl(server.url, http), patience=0.3)
            with pytest.raises(ModelError, match="is being given other weights, or that was broken off"):
                async with weights.during():
                    pass


async def test_the_other_roles_of_the_server_record_the_weights_that_answered_them(registry):
    registry.promote("planner@v3")
    with served(weights="planner@v3#1") as server:
        async with open_models(settings(server, registry)) as models:
            policies = {role: (await call(model)).policy for role, model in models.by_role.items()}
    assert set(policies.values()) == {"planner@v3"}


async def test_a_server_that_was_restarted_to_take_weights_is_noticed(registry, monkeypatch):
    monkeypatch.setattr("graph.policies.held_weights._ASK_AGAIN", 0.05)
    with served() as server:
        async with planner(server, registry) as model:
            assert (await call(model)).policy == "planner"
            server.weights = "planner@v3#1"
            await asyncio.sleep(0.1)
            with pytest.raises(ModelError, match="holds the weights of planner@v3"):
                await call(model)
            registry.promote("planner@v3")
            assert (await call(model)).policy == "planner@v3"


async def test_two_processes_may_load_an_adapter_at_once(registry, tmp_path):
    path = registry.path("planner@v1")
    with served() as server:
        async with httpx.AsyncClient() as http:

            class Late(VLLMControl):
                """Asks what is there before the other has loaded it, and loads it afterwards."""

                async def adapters(self) -> dict[str, str]:
                    found = await super().adapters()
                    server.adapters["planner@v1"] = str(path.resolve())
                    return found

            await Late(server.url, http).load_adapter("planner@v1", path)
    assert server.loads == ["planner@v1"], "it was refused, and is there"


async def test_a_server_without_policies(registry):
    registry.promote("planner@v1")
    notices: list[str] = []
    with ScriptedServer({"planner": ["42"]}) as server:
        async with planner(server, registry, model="test-model", notices=notices) as model:
            done = await call(model)
        assert done.policy is None
        assert "planner@v1 is not used" in notices[0]
        with pytest.raises(ConfigError, match="planner@v1 cannot be used: test-model is neither"):
            async with planner(server, registry, model="test-model", use="planner@v1"):
                pass


async def test_a_model_that_is_itself_an_adapter_stays(registry):
    with served() as server:
        server.adapters["mine"] = "/somewhere"
        async with planner(server, registry, model="mine") as model:
            assert (await call(model)).policy == "mine"
        with pytest.raises(ConfigError, match="already names the adapter mine"):
            async with planner(server, registry, model="mine", use="planner@v1"):
                pass


async def test_a_damaged_registry_is_no_reason_to_use_the_base(registry):
    registry.promote("planner@v1")
    policy = registry.path("planner@v1") / "policy.json"
    policy.write_text(json.dumps({"name": "planner"}))
    with served() as server, pytest.raises(ConfigError, match="planner@v1"):
        async with planner(server, PolicyRegistry(registry.directory)):
            pass
    assert asked(server) == []
