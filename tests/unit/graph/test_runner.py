"""Whole runs against a scripted server: failures, budgets, conversations, streaming."""

import asyncio
import json
import logging
import sqlite3
import time

import pytest

from graph.errors import ConfigError, StorageError
from graph.fork import fork_run
from graph.records import Exchange, StopReason
from graph.state import Request
from tests.fakes import ANALYSIS, GO_ON, STOP, ScriptedServer, answer, command, plan
from tests.flows import Events, open_flow, scripts


async def ask(server: ScriptedServer, question: str = "What is 40 + 2?", *, events=None, database=None, **settings):
    async with open_flow(server, database, **settings) as runner:
        return await runner.ask(question, on_event=events)


async def test_a_run_from_question_to_answer(counting):
    events = Events()
    with ScriptedServer(scripts()) as server:
        done = await ask(server, events=events)
    assert (done.stop, done.answer, done.solution, done.error) == (StopReason.VERIFIED, "42", "Because.", None)
    assert [call.role for call in done.calls] == ["analyzer", "planner", "executor", "verifier", "generator"]
    assert done.turns[0].observations[0].content == "noted a"
    assert counting.read_text() == "a\n"
    kinds = [event.kind for event in events if event.kind not in {"token", "module", "call"}]
    assert kinds == ["run", "analysis", "plan", "command", "tool", "observation", "verdict", "answer", "done"]
    json.dumps([event.as_json() for event in events], allow_nan=False)


async def test_each_role_asks_with_its_own_settings(counting):
    tables = {"planner": {"temperature": 0.5, "seed": 3}, "verifier": {"max_tokens": 77, "structured": "off"}}
    with ScriptedServer(scripts()) as server:
        done = await ask(server, models=tables)
    sent = {role: server.of(role)[0] for role in scripts()}
    assert (sent["planner"]["temperature"], sent["planner"]["seed"]) == (0.5, 3)
    assert (sent["executor"]["temperature"], sent["executor"].get("seed")) == (0.0, None)
    assert (
        sent["verifier"]["max_completion_tokens" if "max_completion_tokens" in sent["verifier"] else "max_tokens"] == 77
    )
    assert {role for role in sent if "response_format" not in sent[role]} == {"verifier"}
    assert {call.role: call.sampling["constrained"] for call in done.calls} == dict.fromkeys(scripts(), True) | {
        "verifier": False
    }


async def test_tokens_arrive_as_they_are_sent(counting):
    """Not at the end of the call: the first is there while the server still sends."""
    events, first = Events(), asyncio.Event()

    def listen(event) -> None:
        events(event)
        if event.kind == "token":
            first.set()

    slow = {"text": ANALYSIS, "pause": 0.05}
    with ScriptedServer(scripts(analyzer=[slow])) as server:
        async with open_flow(server) as runner:
            task = asyncio.create_task(runner.ask("What is 40 + 2?", on_event=listen))
            await first.wait()
            assert not events.of("call")
            await task
    for module, text in (("analyzer", ANALYSIS), ("planner", plan()), ("generator", answer("42"))):
        assert "".join(e.data["text"] for e in events.of("token") if e.data["module"] == module) == text


async def test_unreadable_output_costs_the_turn_and_is_seen(counting):
    """Failures of models are part of the memory."""
    replies = scripts(
        planner=["I cannot decide.", plan("cook"), plan(), plan()],
        executor=["Call it with a.", command({"text": "a"})],
        verifier=["should not stop yet"],
    )
    with ScriptedServer(replies) as server:
        done = await ask(server, budgets={"max_turns": 4})
    assert done.stop is StopReason.MAX_TURNS
    assert done.answer == "42"
    assert [fault.module for fault in done.faults] == ["planner", "planner", "executor", "verifier"]
    last = server.of("planner")[-1]["messages"][-1]["content"]
    for seen in ("no JSON object", "There is no tool 'cook'", "The call could not be read"):
        assert seen in last
    assert done.faults[0].output == "I cannot decide."


async def test_a_verifier_in_prose_means_go_on(counting):
    """Case 4, in the flow."""
    replies = scripts(
        planner=[plan()] * 2,
        executor=[command({"text": "a"}), command({"text": "b"})],
        verifier=["It should not stop yet.", f"```json\n{STOP}\n```"],
    )
    with ScriptedServer(replies) as server:
        done = await ask(server)
    assert (done.stop, len(done.turns)) == (StopReason.VERIFIED, 2)


async def test_an_unreadable_analysis_and_answer_are_no_failures(counting):
    with ScriptedServer(scripts(analyzer=["Hm."], generator=["It is 42."])) as server:
        done = await ask(server)
    assert (done.stop, done.analysis, done.answer) == (StopReason.VERIFIED, None, "It is 42.")


async def test_tool_errors_are_observations(counting):
    replies = scripts(
        planner=[plan()] * 2,
        executor=[command({"text": "a", "fail": True}, {"txt": "b"}), command({"text": "c"})],
        verifier=[GO_ON, STOP],
    )
    with ScriptedServer(replies) as server:
        done = await ask(server)
    statuses = [observation.status for turn in done.turns for observation in turn.observations]
    assert statuses == ["error", "error", "ok"]
    assert "ValueError: the tool broke" in server.of("planner")[1]["messages"][-1]["content"]
    assert "text: field required" in server.of("planner")[1]["messages"][-1]["content"]


async def test_calls_of_one_turn_run_at_once_and_keep_their_order(counting):
    calls = [{"text": name, "wait": wait} for name, wait in (("a", 0.6), ("b", 0.4), ("c", 0.2), ("d", 0.0))]
    with ScriptedServer(scripts(executor=[command(*calls)])) as server:
        start = time.monotonic()
        events = Events()
        done = await ask(server, events=events)
    assert [o.arguments["text"] for o in done.turns[0].observations] == ["a", "b", "c", "d"]
    assert [e.data["index"] for e in events.of("observation")] == [3, 2, 1, 0]
    assert sum(o.seconds for o in done.turns[0].observations) >= 1.2
    assert done.seconds < time.monotonic() - start + 0.1


ROLES = ["analyzer", "planner", "executor", "verifier", "generator"]


@pytest.mark.parametrize(
    ("role", "reply"),
    [
        *((role, {"status": 500, "message": "the engine died"}) for role in ROLES),
        ("planner", {"status": 400, "message": "no such model"}),
        ("planner", {"json": {"error": {"message": "out of memory"}}}),
        ("generator", {"json": "text"}),
    ],
)
async def test_a_server_that_fails_fails_the_run(role, reply, counting, tmp_path):
    """Case 5: typed, recorded, no answer, no reward; never a dict as text."""
    file = str(tmp_path / "runs.db")
    with ScriptedServer(scripts(**{role: [reply] * 3})) as server:
        async with open_flow(server, file) as runner:
            done = await runner.ask("What is 40 + 2?")
            row = await runner.database.runs.get(done.id)
    assert (done.stop, done.answer, done.reward) == (StopReason.FAILED, None, None)
    assert f"The {role}'s model server at {server.url}" in done.error
    assert (row.status, row.error) == ("failed", done.error)
    assert role not in [call.role for call in done.calls]


@pytest.mark.parametrize(
    ("role", "reply"),
    [
        *((role, {"break": 1}) for role in ROLES),
        ("planner", {"break": 0}),
        ("verifier", {"error": 1}),
        ("generator", {"finish": None, "usage": False}),
    ],
)
async def test_an_answer_that_breaks_off_is_asked_for_again(role, reply, counting):
    """Case 51: and nothing of it stays."""
    good = scripts()[role][0]
    broken = {"text": "BROKEN " + good, **reply}
    with ScriptedServer(scripts(**{role: [broken, good]})) as server:
        done = await ask(server)
    assert (done.stop, done.answer, server.count(role)) == (StopReason.VERIFIED, "42", 2)
    assert "BROKEN" not in done.model_dump_json()
    assert [call.role for call in done.calls].count(role) == 1


async def test_a_stream_that_always_breaks_off_fails_the_run(counting):
    with ScriptedServer(scripts(planner=[{"text": plan(), "break": 1}] * 9)) as server:
        done = await ask(server)
    assert done.stop is StopReason.FAILED
    assert server.count("planner") == 3


async def test_a_server_that_goes_away_and_comes_back(counting, tmp_path):
    """Case 51: a refused connection fails the run; when the server is back it goes on where it was."""
    file = str(tmp_path / "runs.db")
    with ScriptedServer(scripts(verifier=[])) as server:

        def stop_serving(body):
            server._server.socket.close()
            return {"drop": True}

        server.scripts["verifier"] = [stop_serving]
        async with open_flow(server, file) as runner:
            failed = await runner.ask("What is 40 + 2?")
            assert failed.stop is StopReason.FAILED
            assert "Connection error" in failed.error
            with pytest.raises(ConfigError, match="No model server answers"):
                await ask(server)
            with ScriptedServer(scripts(), port=server.port) as again:
                done = await runner.resume(failed.id)
    assert (done.stop, done.answer) == (StopReason.VERIFIED, "42")
    assert again.roles == ["verifier", "generator"]
    assert counting.read_text() == "a\n"


async def test_no_turns_at_all(counting):
    """Case 13."""
    with ScriptedServer({"generator": [answer("42")]}) as server:
        done = await ask(server, budgets={"max_turns": 0})
    assert (done.stop, done.answer, done.turns) == (StopReason.MAX_TURNS, "42", ())
    assert server.roles == ["generator"]


@pytest.mark.parametrize("turns", [1, 3])
async def test_the_turn_budget(turns, counting):
    """Case 40: the generator still answers, from the memory."""
    replies = scripts(planner=[plan()], executor=[command({"text": "a"})], verifier=[GO_ON])
    with ScriptedServer(replies, repeat=True) as server:
        done = await ask(server, budgets={"max_turns": turns})
    assert (done.stop, done.answer, len(done.turns)) == (StopReason.MAX_TURNS, "42", turns)
    assert server.count("planner") == server.count("verifier") == turns
    assert f"Turn {turns}" in server.of("generator")[0]["messages"][-1]["content"]


async def test_turns_of_every_length_never_meet_the_recursion_limit(counting):
    """Case 40; tests/unit/graph/storage/test_growth.py takes three hundred full ones."""
    replies = scripts(planner=["hm", plan(), plan()], executor=["hm", command({"text": "a"})], verifier=[GO_ON])
    with ScriptedServer(replies) as server:
        done = await ask(server, budgets={"max_turns": 3})
    assert (done.stop, done.answer, len(done.turns), done.error) == (StopReason.MAX_TURNS, "42", 3, None)


SLOW = {"delay": 30}


@pytest.mark.parametrize("role", ["analyzer", "planner", "executor", "verifier"])
async def test_the_time_budget_cancels_a_slow_call(role, counting):
    """The generator still answers."""
    with ScriptedServer(scripts(**{role: [{"text": "late", **SLOW}]})) as server:
        start = time.monotonic()
        done = await ask(server, budgets={"max_seconds": 1.5})
    assert (done.stop, done.answer) == (StopReason.MAX_SECONDS, "42")
    assert time.monotonic() - start < 20
    assert role not in [call.role for call in done.calls]


async def test_the_time_budget_cancels_a_slow_tool(counting):
    with ScriptedServer(scripts(executor=[command({"text": "a", "wait": 30})])) as server:
        start = time.monotonic()
        done = await ask(server, budgets={"max_seconds": 1.5})
    assert (done.stop, done.answer) == (StopReason.MAX_SECONDS, "42")
    assert time.monotonic() - start < 20
    assert done.turns[0].observations[0].status == "timeout"
    assert server.count("verifier") == 0


async def test_a_generator_that_never_answers_fails_the_run(counting):
    replies = scripts(generator=[{"text": "late", **SLOW}] * 3)
    with ScriptedServer(replies) as server:
        done = await ask(server, models={"generator": {"timeout": 0.4}})
    assert done.stop is StopReason.FAILED
    assert "generator" in done.error


async def test_the_token_budget(counting):
    replies = scripts(planner=[plan()], executor=[command({"text": "a"})], verifier=[GO_ON])
    with ScriptedServer(replies, repeat=True) as server:
        spent = (await ask(server, budgets={"max_turns": 1})).calls
        first_turn = sum(call.usage.prompt + call.usage.completion for call in spent[:-1])
    with ScriptedServer(replies, repeat=True) as server:
        done = await ask(server, budgets={"max_tokens": first_turn + 1})
    assert (done.stop, done.answer) == (StopReason.MAX_TOKENS, "42")
    assert len(done.turns) == 2
    assert server.count("generator") == 1


async def test_a_cancelled_run_is_recorded_and_goes_on(counting, tmp_path):
    file = str(tmp_path / "runs.db")
    replies = scripts(verifier=[{"text": STOP, "delay": 30}, STOP])
    with ScriptedServer(replies) as server:
        async with open_flow(server, file) as runner:
            events = Events()
            task = asyncio.create_task(runner.ask("What is 40 + 2?", on_event=events))
            while server.count("verifier") == 0:  # noqa: ASYNC110 - another thread brings it
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            run = events.of("run")[0].data["id"]
            row = await runner.database.runs.get(run)
            assert (row.status, row.stop) == ("cancelled", "CANCELLED")
            done = await runner.resume(run)
    assert (done.stop, done.answer) == (StopReason.VERIFIED, "42")
    assert counting.read_text() == "a\n"
    assert {role: server.count(role) for role in ("analyzer", "planner", "executor")} == dict.fromkeys(
        ("analyzer", "planner", "executor"), 1
    )


@pytest.mark.parametrize("question", ["", "   \n", "\x00", " \t"])
async def test_empty_questions_are_refused(question):
    with ScriptedServer({}) as server, pytest.raises(ConfigError, match="The question is empty"):
        await ask(server, question)


async def test_a_question_of_a_megabyte_is_refused():
    refused = pytest.raises(ConfigError, match=r"has 1,000,000 characters; these models take at most [\d,]+: shorten")
    with ScriptedServer({}, context=4096) as server, refused:
        await ask(server, "x" * 1_000_000)


async def test_what_cannot_be_resumed(counting, tmp_path):
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            with pytest.raises(ConfigError, match="There is no run nothing"):
                await runner.resume("nothing")
            done = await runner.ask("What is 40 + 2?")
            with pytest.raises(ConfigError, match=r"has ended \(VERIFIED\)"):
                await runner.resume(done.id)


async def test_a_run_whose_tool_is_gone_is_not_resumed(counting, tmp_path):
    file = str(tmp_path / "runs.db")
    with ScriptedServer(scripts(verifier=[{"status": 400}])) as server:
        failed = await ask(server, database=file)
        async with open_flow(server, file, tools={"enabled": ["generate"], "custom": []}) as runner:
            with pytest.raises(ConfigError, match="was offered count_calls, which cannot be used now"):
                await runner.resume(failed.id)


async def test_a_run_that_had_no_checkpoint_starts_over(counting, tmp_path):
    """Killed in its first milliseconds: only the row is there."""
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            request = Request(
                question="What is 40 + 2?",
                history=(Exchange(question="What is 1 + 1?", answer="2"),),
                conversation="c",
                group="g",
                reference=("42", "forty-two"),
                tags=("t",),
                created=1.5,
            )
            await runner.database.runs.start("run-1", request)
            done = await runner.resume("run-1")
            assert await runner.database.runs.trajectory("run-1") == done
    assert (done.id, done.answer) == ("run-1", "42")
    assert {name: getattr(done, name) for name in Request.model_fields} == dict(request)


async def test_of_two_resumes_at_once_one_is_refused(counting, tmp_path):
    """Whichever runner they come from: no call is made twice."""
    file = str(tmp_path / "runs.db")
    with ScriptedServer(scripts(verifier=[{"status": 400}, {"text": STOP, "delay": 0.2}])) as server:
        failed = await ask(server, database=file)
        async with open_flow(server, file) as one, open_flow(server, file) as other:
            found = await asyncio.gather(
                *(runner.resume(failed.id) for runner in (one, one, other)), return_exceptions=True
            )
            with pytest.raises(ConfigError, match="has ended"):  # no longer: still goes on
                await other.resume(failed.id)
    done = [run for run in found if not isinstance(run, BaseException)]
    refused = [str(error) for error in found if isinstance(error, ConfigError)]
    assert [run.answer for run in done] == ["42"]
    assert refused == [f"The run {failed.id} still goes on in this process: wait for its end, or stop it."] * 2
    assert (server.count("verifier"), server.count("generator")) == (2, 1)


async def test_a_run_under_way_is_not_resumed_beside_itself(counting, tmp_path):
    with ScriptedServer(scripts(verifier=[{"text": STOP, "delay": 0.3}])) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            events = Events()
            asking = asyncio.create_task(runner.ask("What is 40 + 2?", on_event=events))
            while server.count("verifier") == 0:  # noqa: ASYNC110 - another thread brings it
                await asyncio.sleep(0.01)
            with pytest.raises(ConfigError, match="still goes on in this process"):
                await runner.resume(events.of("run")[0].data["id"])
            assert (await asking).answer == "42"
    assert server.count("verifier") == 1


async def test_a_resumed_run_uses_the_models_in_force_and_its_old_budgets(counting, tmp_path):
    file = str(tmp_path / "runs.db")
    replies = scripts(planner=[{"status": 400}, plan()], verifier=[GO_ON])
    with ScriptedServer(replies, models=("test-model", "other")) as server:
        failed = await ask(server, database=file, budgets={"max_turns": 1})
        changed = {"models": {"planner": {"model": "other"}}, "budgets": {"max_turns": 5}}
        async with open_flow(server, file, **changed) as runner:
            done = await runner.resume(failed.id)
    assert (done.stop, len(done.turns), done.config_hash) == (StopReason.MAX_TURNS, 1, failed.config_hash)
    assert {call.role: call.model for call in done.calls} == dict.fromkeys(scripts(), "test-model") | {
        "planner": "other"
    }


async def test_a_fork_is_no_further_question_of_its_conversation(counting, tmp_path):
    with ScriptedServer(scripts(), repeat=True) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("One?", conversation="c")
            fork = await runner.drive_fork(await fork_run(runner, first.id, turn=1))
            second = await runner.ask("Two?", conversation="c")
    assert (fork.conversation, fork.parent, fork.history) == ("c", first.id, ())
    assert [exchange.question for exchange in second.history] == ["One?"]


FOLLOW_UP = json.dumps({"question": "What is the population of Rome?", "summary": "s", "tools": []})


async def test_a_follow_up_in_a_conversation(counting, tmp_path):
    """Case 12: history is shown, all modules work on the standalone question, the memory is empty."""
    replies = scripts(
        analyzer=[ANALYSIS, FOLLOW_UP],
        planner=[plan(sub_goal="FIRST GOAL"), plan()],
        executor=[command({"text": "a"}), command({"text": "b"})],
        verifier=[STOP] * 2,
        generator=[answer("2.1 million"), answer("2.8 million")],
    )
    with ScriptedServer(replies) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            first = await runner.ask("What is the population of Paris?", conversation="c")
            second = await runner.ask("And of Rome?", conversation="c")
    assert (first.history, second.turns[0].observations[0].arguments["text"]) == ((), "b")
    assert [(e.question, e.answer) for e in second.history] == [("What is the population of Paris?", "2.1 million")]
    analyzer = server.of("analyzer")[1]["messages"][-1]["content"]
    assert "What is the population of Paris?" in analyzer
    assert "2.1 million" in analyzer
    for role in ("planner", "verifier", "generator"):
        text = server.of(role)[1]["messages"][-1]["content"]
        assert "Question: What is the population of Rome?" in text
        assert "Paris" not in text
    assert "Memory:\n(empty)" in server.of("planner")[1]["messages"][-1]["content"]
    assert "FIRST GOAL" not in json.dumps(server.requests[len(first.calls) :])
    assert second.question == "And of Rome?"


async def test_a_follow_up_without_turns_is_rewritten_too(counting, tmp_path):
    replies = scripts(analyzer=[FOLLOW_UP], generator=[answer("a"), answer("b")])
    with ScriptedServer(replies) as server:
        async with open_flow(server, str(tmp_path / "runs.db"), budgets={"max_turns": 0}) as runner:
            await runner.ask("What is the population of Paris?", conversation="c")
            done = await runner.ask("And of Rome?", conversation="c")
    assert (done.stop, done.answer, done.turns) == (StopReason.MAX_TURNS, "b", ())
    assert "Question: What is the population of Rome?" in server.of("generator")[1]["messages"][-1]["content"]


async def test_two_conversations_at_once_do_not_mix(counting, tmp_path):
    def echo(body):
        question = body["messages"][-1]["content"].split("Question: ")[-1].split("\n")[0]
        return answer(question)

    def follow(body):
        text = body["messages"][-1]["content"]
        return json.dumps({"question": text.split("Question: ")[-1], "summary": "s"})

    replies = scripts(analyzer=[follow], generator=[echo])
    with ScriptedServer(replies, repeat=True) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:

            async def talk(name: str):
                return [await runner.ask(f"{name}{i}?", conversation=name) for i in range(3)]

            talks = await asyncio.gather(*(talk(name) for name in "abcd"))
    for name, talk in zip("abcd", talks, strict=True):
        for i, run in enumerate(talk):
            assert [e.question for e in run.history] == [f"{name}{j}?" for j in range(i)]
            assert run.answer == f"{name}{i}?"


async def test_failed_and_foreign_runs_are_no_history(counting, tmp_path):
    replies = scripts(
        analyzer=[ANALYSIS] * 3,
        planner=[{"status": 400}, plan(), plan()],
        executor=[command({"text": "a"})] * 2,
        verifier=[STOP] * 2,
        generator=[answer("x"), answer("y")],
    )
    with ScriptedServer(replies) as server:
        async with open_flow(server, str(tmp_path / "runs.db")) as runner:
            assert (await runner.ask("One?", conversation="c")).stop is StopReason.FAILED
            await runner.ask("Two?", conversation="d")
            assert (await runner.ask("Three?", conversation="c")).history == ()


async def test_a_key_never_leaves_the_process(counting, tmp_path, monkeypatch, caplog):
    """A planted key, repeated by the server in an error and known to a tool, is in nothing that is kept or told."""
    key = "sk-planted-4711"
    monkeypatch.setenv("TEST_KEY", key)
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "runs.db"
    refusing = {"status": 401, "message": f"the key {key} was revoked"}
    events = Events()
    with ScriptedServer(scripts(verifier=[refusing]), key=key) as server:
        table = {"model": "test-model", "base_url": server.url, "api_key_env": "TEST_KEY", "max_retries": 0}
        done = await ask(server, events=events, database=str(file), models={"default": table})
        assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert "was revoked" in done.error
    everything = [done.model_dump_json(), caplog.text, *(json.dumps(event.as_json()) for event in events)]
    everything += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert not [text for text in everything if key in text]


async def test_a_full_disk_is_a_sentence(counting, tmp_path):
    """Nothing can be recorded then: the database says so, and what was there before is whole."""
    file = tmp_path / "runs.db"

    async def ask_on_a_full_disk(server: ScriptedServer) -> None:
        async with open_flow(server, str(file)) as runner:
            await runner.database.saver.conn.execute("PRAGMA max_page_count = 1")
            await runner.ask("What is 40 + 2?")

    with ScriptedServer(scripts()) as server, pytest.raises(StorageError, match=r"The disk that holds .* is full"):
        await ask_on_a_full_disk(server)
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_without_a_database_nothing_is_kept(counting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ScriptedServer(scripts()) as server:
        done = await ask(server)
    assert done.answer == "42"
    assert {path.name for path in tmp_path.iterdir()} == {"count.txt"}


async def test_listeners_that_look_empty_are_listened_to(counting):
    """An empty list that can be called is no absent listener."""
    with ScriptedServer(scripts()) as server:
        events = Events()
        assert not events
        await ask(server, events=events)
    assert events


@pytest.mark.parametrize("last", ["analyzer", "planner", "executor", "verifier"])
async def test_a_run_killed_between_a_result_and_its_checkpoint_goes_on(last, counting, tmp_path):
    """The latest checkpoint's only task has its result: the run has not ended."""
    file = str(tmp_path / "runs.db")
    following = {"analyzer": "planner", "planner": "executor", "executor": "verifier", "verifier": "generator"}[last]
    with ScriptedServer(scripts(**{following: [{"status": 400}, *scripts()[following]]})) as server:
        failed = await ask(server, database=file)
        with sqlite3.connect(file) as connection:
            newest = "(SELECT max(checkpoint_id) FROM checkpoints)"
            step = {"executor": 2}.get(last, 1)  # the tools' step follows the executor's
            for _ in range(step):
                connection.execute(f"DELETE FROM writes WHERE checkpoint_id = {newest}")
                connection.execute(f"DELETE FROM checkpoints WHERE checkpoint_id = {newest}")
        asked = len(server.requests)
        async with open_flow(server, file) as runner:
            done = await runner.resume(failed.id)
    assert (done.stop, done.answer) == (StopReason.VERIFIED, "42")
    assert server.roles[asked] == following
    assert done.turns[0].observations[0].repeated is (last == "executor")
