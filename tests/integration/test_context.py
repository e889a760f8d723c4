"""Prompts that fit with their answers on real servers, which count them as they will take them (cases 16 and 39)."""

from collections.abc import Sequence
from typing import Any

import pytest

from graph.config import FlowConfig
from graph.deadline import Deadline
from graph.engine import LocalSettings
from graph.fit import fit
from graph.models.client import RoleModel
from graph.models.tokens import most_tokens, most_tokens_after
from graph.prompt import Message
from graph.records import ModelCall, Observation, Plan, StopReason, Turn
from graph.rendering import messages_for
from graph.runner import Runner, open_runner
from graph.schemas import schema_for
from graph.state import FlowState, Request
from tests import long_tool
from tests.fakes import ANALYSIS, ScriptedServer, command, plan
from tests.long_tool import HOSTILE
from training.serve import VLLMServer

LONG = {"enabled": [], "custom": ["tests.long_tool:look"]}


def remembering(runner: Runner, texts: Sequence[str]) -> FlowState:
    """The state of a run whose turns brought these results."""
    turns = [
        Turn(
            plan=Plan(sub_goal="Look it up", tool="count_calls", context=text[:2000]),
            observations=(Observation(tool="count_calls", arguments={"text": "a"}, status="ok", content=text),),
        )
        for text in texts
    ]
    return {"request": Request(question="What is it?"), "setup": runner.setup("What is it?"), "turns": turns}


async def asked(model: RoleModel, state: FlowState, turn: int) -> tuple[list[Message], ModelCall]:
    """One call of the model's role, fitted as the flow's modules fit theirs; its counts are checked."""
    deadline = Deadline(240)
    fitted = await fit(model, lambda chars: messages_for(model.role, state, turn, chars), deadline)
    schema = schema_for(model.role, state, turn)
    call = await model.complete(fitted.messages, schema=schema, deadline=deadline, turn=turn)
    await check(model, fitted.messages, call.usage.prompt)
    return fitted.messages, call


async def check(model: RoleModel, messages: Sequence[Message], used: int | None) -> None:
    """The server counts what it used, the prompt fits with its answer, and the bound holds."""
    assert model.context is not None
    assert model.counter is not None
    assert used is not None
    assert await model.counter.count(messages) == used
    assert used + model.config.max_tokens <= model.context
    assert most_tokens(messages) >= used


@pytest.mark.vllm
@pytest.mark.timeout(600)
async def test_a_long_run_with_hostile_results_on_vllm(vllm_server: VLLMServer) -> None:
    """No call is refused, and every bound that would have saved a count holds."""
    texts = [text * 3 for text in HOSTILE.values()]
    long_tool.results[:] = texts
    script: dict[str, Any] = {
        "analyzer": [ANALYSIS],
        "planner": [plan()],
        "executor": [command({"text": "a"})],
    }
    with ScriptedServer(script, repeat=True) as others:
        served = {"model": "planner", "base_url": vllm_server.base_url, "max_tokens": 48}
        models = {
            "default": {"model": "test-model", "base_url": others.url},
            "verifier": {**served, "structured": "off"},
            "generator": {**served, "structured": "off"},
        }
        budgets = {"max_turns": len(texts), "max_seconds": 500, "memory_chars": 40_000}
        config = FlowConfig.model_validate(
            {"models": models, "tools": LONG, "budgets": budgets, "policies": {"use": "base"}}
        )
        async with open_runner(config) as runner:
            done = await runner.ask("What is it?")
            assert (done.error, done.stop in {StopReason.MAX_TURNS, StopReason.VERIFIED}) == (None, True)
            before: tuple[Sequence[Message], int] | None = None
            for call in (call for call in done.calls if call.role in models and call.model == "planner"):
                assert call.messages is not None
                assert len(call.prompt_ids or ()) == call.usage.prompt
                await check(runner.models[call.role], call.messages, call.usage.prompt)  # type: ignore[index]
                assert call.usage.prompt is not None
                if before:
                    assert most_tokens_after(call.messages, *before) >= call.usage.prompt
                before = call.messages, call.usage.prompt
            assert max(call.usage.prompt or 0 for call in done.calls) > 7_000


@pytest.mark.vllm
@pytest.mark.timeout(600)
async def test_the_planners_prompts_on_vllm(vllm_server: VLLMServer) -> None:
    """The planner is asked with each hostile memory, free and held to its schema."""
    default = {"model": "planner", "base_url": vllm_server.base_url, "max_tokens": 64}
    for structured in ("off", "json_schema"):
        config = FlowConfig.model_validate(
            {"models": {"default": {**default, "structured": structured}}, "tools": LONG, "policies": {"use": "base"}}
        )
        async with open_runner(config) as runner:
            assert runner.models["planner"].context == 8192
            for text in HOSTILE.values():
                state = remembering(runner, [text] * 8)
                _, call = await asked(runner.models["planner"], state, 8)
                assert len(call.prompt_rest or ()) == call.usage.prompt
                await asked(runner.models["executor"], state, 0)


@pytest.mark.engine
@pytest.mark.timeout(600)
async def test_the_embedded_engine_counts_as_it_reads(embedded: LocalSettings) -> None:
    """Its key goes with the count, its template is applied, and a memory that does not fit gives way."""
    default = {"max_tokens": 16}
    models = {"default": default, "analyzer": default, "verifier": default}
    config = FlowConfig.model_validate({"models": models, "local": embedded.model_dump(), "tools": LONG})
    async with open_runner(config) as runner:
        verifier = runner.models["verifier"]
        assert verifier.context == embedded.context_per_slot
        first, call = await asked(verifier, remembering(runner, [HOSTILE["digits"]] * 2), 1)
        second, other = await asked(verifier, remembering(runner, [HOSTILE["blanks"] + HOSTILE["marks"]] * 2), 1)
        assert call.usage.prompt is not None
        assert most_tokens_after(second, first, call.usage.prompt) >= (other.usage.prompt or 0)
        await asked(runner.models["executor"], remembering(runner, [HOSTILE["emoji"]]), 0)
