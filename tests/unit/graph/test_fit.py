"""Prompts that fit with their answers, whatever tools and models wrote, and traces of them (cases 16 and 39)."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.errors import ConfigError
from graph.fork import fork_run
from graph.projection import project
from graph.records import Exchange, StopReason
from tests import long_tool
from tests.byte_server import ByteServer
from tests.fakes import ANALYSIS, GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import open_flow, scripts
from tests.long_tool import HOSTILE

LONG = "tests.long_tool:look"
ANSWER = 400
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def turns(count: int = 4, **changes):
    return scripts(
        planner=[plan(sub_goal=f"Look up part {number}") for number in range(count)],
        executor=[command({"text": "a"})] * count,
        verifier=[*[GO_ON] * (count - 1), STOP],
        **changes,
    )


def dumped(value) -> str:
    return json.dumps(value, ensure_ascii=False)


def open_long(server: ScriptedServer, database: str | None = None, **tables):
    tables.setdefault("tools", {"enabled": [], "custom": [LONG]})
    models = {role: {"max_tokens": ANSWER} for role in ("analyzer", "verifier", "default")}
    models["default"] |= {"model": server.models[0], "base_url": server.url, "max_retries": 0, "timeout": 20}
    return open_flow(server, database, **tables, models=models)


def check(server: ScriptedServer, done) -> None:
    """Every prompt fitted, was sent as the trace has it, and nothing was refused."""
    assert (done.stop, done.error, server.too_long) == (StopReason.VERIFIED, None, 0)
    assert len(done.calls) == len(server.requests)
    for call in done.calls:
        assert call.messages is not None
        assert call.usage.prompt + ANSWER <= server.context
        assert call.sampling["max_tokens"] == ANSWER  # memory gives way, never the answer
        assert {"messages": [dict(message) for message in call.messages]} in [
            {"messages": request["messages"]} for request in server.requests
        ]


@pytest.mark.parametrize("kind", [ScriptedServer, ByteServer])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_results_of_every_kind(kind, text):
    long_tool.results[:] = [text]
    with kind(turns(), owned_by="vllm", context={ScriptedServer: 1700, ByteServer: 5000}[kind]) as server:
        async with open_long(server) as runner:
            check(server, await runner.ask("What is 40 + 2?"))


@FEW
@given(
    st.lists(st.sampled_from([*HOSTILE.values(), "short"]), min_size=4, max_size=4),
    st.text(max_size=3000),
    st.integers(4600, 9000),
)
async def test_results_of_any_kind_together(results, anything, context):
    long_tool.results[:] = [text + anything for text in results]
    with ByteServer(turns(), owned_by="llamacpp", context=context) as server:
        async with open_long(server) as runner:
            check(server, await runner.ask("What is 40 + 2?"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_what_models_wrote_gives_way_too(text, tmp_path):
    """A plan's context and sub-goal, the analysis, a rewritten question, the history, a query of `generate`."""
    long = f"Look: {text.encode()[:6000].decode(errors='ignore')}"
    analysis = dumped({**json.loads(ANALYSIS), "summary": long, "question": long})
    planned = dumped({"justification": "j", "context": long, "sub_goal": long, "tool": "generate"})
    replies = scripts(
        analyzer=[ANALYSIS, analysis],
        planner=[plan("generate"), planned],
        executor=[command({"query": "q"}), dumped({"calls": [{"query": long}]})],
        verifier=[STOP, STOP],
        generate=["It is.", "It is."],
        generator=[dumped({"solution": "", "answer": long}), answer("42")],
    )
    with ByteServer(replies, owned_by="vllm", context=5000) as server:
        only = {"enabled": ["generate"], "custom": []}
        async with open_long(server, str(tmp_path / "runs.db"), tools=only) as runner:
            first = await runner.ask("What is 40 + 2?", conversation="c")
            second = await runner.ask("And doubled?", conversation="c")
            state = (await runner.snapshot(second.id)).values
    assert second.history == (Exchange(question="What is 40 + 2?", answer=first.answer),)
    check_both = [*first.calls, *second.calls]
    assert (second.stop, second.error, server.too_long) == (StopReason.VERIFIED, None, 0)
    assert all(call.messages is not None for call in check_both)
    shortened = {call.role for call in state["calls"] if call.memory_chars is not None}
    assert {"planner", "executor", "generate"} <= shortened


async def test_a_trace_from_disk_a_resumed_run_and_a_fork_render_the_same(tmp_path):
    long_tool.results[:] = [HOSTILE["digits"]]
    replies = turns(3)
    replies["verifier"] = [GO_ON, {"status": 400, "message": "down"}, GO_ON, STOP, STOP]
    replies["planner"] = [*replies["planner"], plan()]
    replies["executor"] = [*replies["executor"], command({"text": "a"})]
    replies["generator"] = [answer("42"), answer("42")]
    with ByteServer(replies, owned_by="vllm", context=5000) as server:
        async with open_long(server, str(tmp_path / "runs.db")) as runner:
            failed = await runner.ask("What is 40 + 2?")
            assert failed.stop == StopReason.FAILED
            done = await runner.resume(failed.id)
            state = (await runner.snapshot(failed.id)).values
            assert project(failed.id, state).calls == done.calls
            assert any(call.memory_chars for call in state["calls"])
            fork = await runner.drive_fork(await fork_run(runner, done.id, turn=3))
    for trajectory in (done, fork):
        assert (trajectory.stop, server.too_long) == (StopReason.VERIFIED, 0)
        assert all(call.messages is not None for call in trajectory.calls)


async def test_what_fits_is_sent_as_it_is_and_counts_nothing():
    long_tool.results[:] = ["Opened in 1908."]
    with ScriptedServer(turns(), owned_by="vllm", context=8192) as server:
        async with open_long(server) as runner:
            done = await runner.ask("What is 40 + 2?")
    check(server, done)
    assert server.counts == 0


@pytest.mark.parametrize("owner", ["vllm", "other"])
async def test_where_counting_fails_the_estimate_shortens(owner, tmp_path):
    """As for a server that cannot count: each call is held within the estimate, and recorded as it was sent."""

    class Mute(ScriptedServer):
        def endpoint(self, path, body):
            return (500, {}) if path.endswith("/tokenize") else None

    long_tool.results[:] = [HOSTILE["digits"]]
    with Mute(turns(), owned_by=owner, context=3000) as server:
        async with open_long(server, str(tmp_path / "runs.db"), budgets={"memory_chars": 20_000}) as runner:
            done = await runner.ask("What is 40 + 2?")
            state = (await runner.snapshot(done.id)).values
    check(server, done)
    assert {call.role for call in state["calls"] if call.memory_chars} == {"planner", "verifier", "generator"}


async def test_a_small_context_of_one_role_leaves_the_others_their_memory(tmp_path):
    long_tool.results[:] = [HOSTILE["prose"]]
    roles = turns(2)
    planner = {"planner": roles.pop("planner")}
    with (
        ScriptedServer(planner, owned_by="vllm", context=1400) as small,
        ScriptedServer(roles, owned_by="vllm", context=8000) as large,
    ):
        models = {
            "default": {"model": "test-model", "base_url": large.url, "max_tokens": ANSWER},
            "planner": {"base_url": small.url},
        }
        tools = {"enabled": [], "custom": [LONG]}
        async with open_flow(large, str(tmp_path / "runs.db"), models=models, tools=tools) as runner:
            done = await runner.ask("What is 40 + 2?")
            state = (await runner.snapshot(done.id)).values
    assert (done.stop, small.too_long, large.too_long) == (StopReason.VERIFIED, 0, 0)
    assert len(large.of("generator")[0]["messages"][-1]["content"]) > 10_000
    limits = [(call.role, call.memory_chars) for call in state["calls"] if call.memory_chars is not None]
    assert [role for role, _ in limits] == ["planner"]
    assert 200 < limits[0][1] < 8000
    used = [call.usage.prompt for call in done.calls if call.role == "planner"]
    assert 0.9 * (1400 - ANSWER) < used[1] <= 1400 - ANSWER  # shortened no more than it must be


async def test_counts_are_few(tmp_path):
    """Ten turns of a long run in a context of 4,096: once a call was made, its usage says enough for the next one."""
    long_tool.results[:] = [HOSTILE["prose"][:900]]
    with ScriptedServer(turns(10), owned_by="vllm", context=4096) as server:
        async with open_long(server) as runner:
            done = await runner.ask("What is 40 + 2?")
    check(server, done)
    assert len(done.calls) == 32
    assert server.counts <= 2


async def test_a_question_that_cannot_fit_is_refused_before_the_run(tmp_path):
    """With the true numbers; nothing is written, and no model is asked."""
    with ScriptedServer(scripts(), owned_by="vllm", context=2000) as server:
        async with open_long(server, str(tmp_path / "runs.db")) as runner:
            question = "abcdefg " * 900
            with pytest.raises(
                ConfigError, match=r"The question has 9\d\d tokens; the \w+'s model .* at most \d{3}: sh"
            ):
                await runner.ask(question)
            assert (await runner.database.runs.latest(), server.requests) == ([], [])
            long_tool.results[:] = [HOSTILE["base64"]]
            done = await runner.ask("abcdefg " * 200)
    check(server, done)


async def test_a_context_that_the_prompt_itself_fills_is_named():
    with ScriptedServer({}, owned_by="vllm", context=ANSWER + 150) as server:
        async with open_long(server) as runner:
            with pytest.raises(
                ConfigError, match=r"The planner's prompt takes \d+ tokens without a question.*context of"
            ):
                await runner.ask("What is 40 + 2?")


async def test_an_answer_as_long_as_the_context_is_refused_at_once():
    refused = pytest.raises(
        ConfigError, match=r"models\.\w+\.max_tokens is 400, and the context of test-model holds 400"
    )
    with ScriptedServer({}, owned_by="vllm", context=ANSWER) as server, refused:
        async with open_long(server):
            pass


async def test_a_prompt_that_grew_beyond_help_fails_its_run(tmp_path):
    """The last resort: a run resumed with a smaller model than the question was checked for."""
    file = str(tmp_path / "runs.db")
    broken = {"status": 400, "message": "down"}
    with ScriptedServer(turns(1) | {"planner": [broken]}, owned_by="vllm", context=4000) as server:
        async with open_long(server, file) as runner:
            failed = await runner.ask("abcdefg " * 400)
    with ScriptedServer(turns(1), owned_by="vllm", context=700) as server:
        async with open_long(server, file) as runner:
            done = await runner.resume(failed.id)
    assert done.stop == StopReason.FAILED
    assert "The planner's prompt takes 5" in done.error
    assert "more than its context of 700; lower models.planner.max_tokens" in done.error
    assert server.roles == []
