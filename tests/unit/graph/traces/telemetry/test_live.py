import asyncio
import subprocess
import sys
import threading

import pytest

from graph.errors import ConfigError
from graph.events import Event
from graph.traces.telemetry.address import traces_address
from graph.traces.telemetry.live import LiveSender
from graph.traces.telemetry.sending import Sender
from tests.any_trajectory import realistic
from tests.command import REPOSITORY, wait_for
from tests.fakes import ScriptedServer, answer
from tests.flows import open_flow, scripts
from tests.otlp_collector import OtlpCollector, values


def live(collector: OtlpCollector, notices: list[str], **options) -> LiveSender:
    sender = Sender(traces_address(collector.url))
    return LiveSender(sender, redact=lambda run: run, on_notice=notices.append, **options)


def test_what_was_taken_is_sent_before_the_end():
    notices: list[str] = []
    with OtlpCollector() as collector:
        ours = live(collector, notices)
        for number in range(20):
            ours.take(realistic(number))
        ours.close(60)
        assert len(collector.of_kind("AGENT")) == 20
    assert notices == []


def test_runs_do_not_wait_for_a_collector_that_hangs():
    """Nothing here waits for the collector's answer, which never comes: the test would hang."""
    notices: list[str] = []
    with OtlpCollector(hold=threading.Event()) as collector:
        ours = live(collector, notices, most=3)
        ours.take(realistic(0))
        assert collector.asked.wait(60)
        for number in range(1, 10):
            ours.take(realistic(number))
        assert len(notices) == 1
        assert "slower than the runs" in notices[0]
        ours.close(0.1)
        assert collector.spans == []
    assert len(notices) == 1


def test_the_end_does_not_wait_for_a_collector_that_hangs():
    notices: list[str] = []
    with OtlpCollector(hold=threading.Event()) as collector:
        ours = live(collector, notices)
        ours.take(realistic(0))
        assert collector.asked.wait(60)
        ours.close(0.1)
        [notice] = notices
    assert "takes too long" in notice


def test_one_notice_tells_of_a_collector_that_refuses_and_later_traces_are_sent():
    notices: list[str] = []
    with OtlpCollector(statuses=(500, 500)) as collector:
        ours = live(collector, notices)
        for number in range(3):
            ours.take(realistic(number))
        ours.close(60)
        assert len(collector.of_kind("AGENT")) == 1
    [notice] = notices
    assert notice.startswith(
        "Traces are not sent (runs go on, and `agentflow traces send` sends what is missing): the co"
    )
    assert "500 Internal Server Error" in notice


def test_what_cannot_be_redacted_is_not_sent():
    def fail(run):
        if run.id == realistic(0).id:
            raise RuntimeError("planted")
        return run

    notices: list[str] = []
    with OtlpCollector() as collector:
        ours = LiveSender(Sender(traces_address(collector.url)), redact=fail, on_notice=notices.append)
        ours.take(realistic(0))
        ours.take(realistic(1))
        ours.close(60)
        [root] = collector.of_kind("AGENT")
    assert realistic(1).id in values(root.attributes)["metadata"]
    assert notices == ["A trace is not sent, as it could not be made spans (RuntimeError)."]


@pytest.mark.parametrize("kept", [True, False])
async def test_runs_are_sent_when_they_end_however_they_do(kept, counting, tmp_path):
    database = str(tmp_path / "runs.db") if kept else None
    script = scripts(analyzer=scripts()["analyzer"] * 2, generator=[answer("42"), {"status": 400, "message": "no"}])
    more = {role: script[role] * 2 for role in ("planner", "executor", "verifier")}
    with OtlpCollector() as collector, ScriptedServer(script | more, owned_by="vllm") as server:
        async with open_flow(server, database, traces={"otlp_endpoint": collector.url}) as runner:
            good = await runner.ask("What?", source="evaluation", dataset="d", tags=["x"])
            wait_for(lambda: len(collector.of_kind("AGENT")) == 1, "the first run's trace")
            bad = await runner.ask("And then?")
        first, second = collector.of_kind("AGENT")
        assert values(first.attributes)["output.value"] == "42"
        assert values(first.attributes)["tag.tags"] == ["x"]
        assert (second.status.message, bad.stop) == (bad.error, "FAILED")
        assert len(collector.of_kind("LLM")) == len(good.calls) + len(bad.calls)
        for call, span in zip(good.calls, collector.of_kind("LLM"), strict=False):
            found = values(span.attributes)
            assert found["llm.input_messages.0.message.content"] == call.messages[0]["content"]
            assert found["llm.token_count.prompt"] == call.usage.prompt


async def test_a_run_that_is_stopped_is_sent_too(counting):
    slow = scripts(verifier=[{"text": "", "delay": 60}])
    with OtlpCollector() as collector, ScriptedServer(slow) as server:
        async with open_flow(server, traces={"otlp_endpoint": collector.url}) as runner:
            verifying = asyncio.Event()

            def look(event: Event) -> None:
                if event.data.get("module") == "verifier":
                    verifying.set()

            asked = asyncio.create_task(runner.ask("What?", on_event=look))
            await verifying.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        [root] = collector.of_kind("AGENT")
    assert '"stop":"CANCELLED"' in values(root.attributes)["metadata"]
    assert [span.name for span in collector.of_kind("LLM")] == ["analyzer", "planner", "executor"]


async def test_a_collector_that_is_not_there_breaks_no_run(counting):
    with ScriptedServer(scripts()) as server:
        async with open_flow(server, traces={"otlp_endpoint": "http://127.0.0.1:9"}) as runner:
            assert (await runner.ask("What?")).answer == "42"


async def test_nothing_is_sent_where_the_environment_disables_it(counting, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with OtlpCollector() as collector, ScriptedServer(scripts()) as server:
        async with open_flow(server, traces={"otlp_endpoint": collector.url}) as runner:
            assert runner.on_end is None
            await runner.ask("What?")
        assert not collector.asked.is_set()


_RUN = """
import asyncio, sys
from tests.fakes import ScriptedServer
from tests.flows import open_flow, scripts

async def main():
    with ScriptedServer(scripts()) as server:
        async with open_flow(server) as runner:
            print((await runner.ask("What?")).answer)

asyncio.run(main())
"""


def program(code: str, tmp_path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin:/bin", "COUNTING_FILE": str(tmp_path / "count.txt"), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_without_the_setting_loads_nothing_of_the_extra(tmp_path):
    """LangChain loads the SDK by itself where it is installed; what exports is ours alone."""
    ours = ("openinference", "opentelemetry.exporter", "opentelemetry.proto", "graph.traces.telemetry.")
    lines = program(f"{_RUN}\nprint([n for n in sys.modules if n.startswith({ours!r})])", tmp_path).splitlines()
    light = [f"graph.traces.telemetry.{name}" for name in ("address", "sending", "live")]
    assert lines[0] == "42"
    assert sorted(eval(lines[1])) == sorted(light)


def test_without_the_packages_runs_go_on_and_the_setting_is_refused(tmp_path):
    absent = "import sys\nfor name in ('opentelemetry', 'openinference'): sys.modules[name] = None\n"
    assert program(absent + _RUN, tmp_path) == "42\n"
    refused = (
        f"{absent}from graph.traces.telemetry.sending import Sender\n"
        "try:\n    Sender('http://127.0.0.1:4318')\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    assert program(refused, tmp_path) == (
        f"{ConfigError.__name__} Sending traces needs OpenTelemetry: pip install 'agentflow[otel]'.\n"
    )
