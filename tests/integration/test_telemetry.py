"""Traces that leave for a collector, through the real program."""

import json
import threading

import pytest

from tests.command import Workplace, events, kinds
from tests.fakes import ScriptedServer
from tests.flows import scripts
from tests.otlp_collector import OtlpCollector, values


@pytest.fixture
def server():
    script = {role: list(replies) * 6 for role, replies in scripts().items()}
    with ScriptedServer(script, owned_by="vllm") as scripted:
        yield scripted


@pytest.fixture
def workplace(server, tmp_path):
    return Workplace(tmp_path, server.url)


def with_setting(workplace: Workplace, server: ScriptedServer, endpoint: str) -> None:
    workplace.write_config(server.url, f'[traces]\notlp_endpoint = "{endpoint}"\n')


def plain(span) -> tuple:
    """A span as it can be compared with one that was sent at another time."""
    events = [(event.name, event.time_unix_nano, values(event.attributes)) for event in span.events]
    ids = (span.trace_id, span.span_id, span.parent_span_id)
    return (*ids, span.name, span.start_time_unix_nano, span.end_time_unix_nano, values(span.attributes), events)


def test_a_run_is_sent_when_it_ends_and_again_on_request_as_the_same_spans(workplace, server):
    with OtlpCollector() as live, OtlpCollector() as later:
        with_setting(workplace, server, live.url)
        asked = workplace.run("ask", "What is asked?", "--json")
        assert (asked.returncode, asked.stderr) == (0, "")
        done = events(asked.stdout)[-1]
        [root] = live.of_kind("AGENT")
        assert values(root.attributes)["input.value"] == "What is asked?"
        assert root.trace_id.hex() == done["id"].replace("-", "")

        shown = json.loads(workplace.call("runs", "show", done["id"], "--json"))
        assert [span.name for span in live.of_kind("LLM")] == [call["role"] for call in shown["calls"]]
        for span, call in zip(live.of_kind("LLM"), shown["calls"], strict=True):
            found = values(span.attributes)
            for number, message in enumerate(call["messages"]):
                assert found[f"llm.input_messages.{number}.message.content"] == message["content"]
            assert found["llm.output_messages.0.message.content"] == call["text"]
            assert found["llm.token_count.prompt"] == call["usage"]["prompt"]
            assert found["llm.token_count.completion"] == call["usage"]["completion"]
        [tool] = live.of_kind("TOOL")
        assert values(tool.attributes)["tool.name"] == "count_calls"

        sent = workplace.run("traces", "send", "--endpoint", later.url)
        assert sent.returncode == 0
        assert sent.stderr == f"Sent 1 trajectory ({len(live.spans)} spans) to {later.url}/v1/traces.\n"
        assert list(map(plain, later.spans)) == list(map(plain, live.spans))


def test_filters_choose_what_is_sent(workplace, server):
    with OtlpCollector() as collector:
        for question in ("How many birds?", "How many fish?"):
            workplace.call("ask", question)
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        assert workplace.run("traces", "send", "--text", "fish", env=environment).returncode == 0
        assert [values(root.attributes)["input.value"] for root in collector.of_kind("AGENT")] == ["How many fish?"]
        none = workplace.run("traces", "send", "--text", "mammals", env=environment)
    assert (none.returncode, none.stderr) == (0, "There are no such trajectories; nothing was sent.\n")


def test_feedback_goes_with_what_is_sent(workplace, server):
    with OtlpCollector() as collector:
        run = events(workplace.call("ask", "What?", "--json"))[-1]["id"]
        workplace.call("feedback", run, "--good", "--note", "well found")
        workplace.call("traces", "send", "--endpoint", collector.url)
        [root] = collector.of_kind("AGENT")
    found = values(root.attributes)
    assert found["trace.annotations.0.annotation.label"] == "good"
    assert found["trace.annotations.0.annotation.explanation"] == "well found"
    assert json.loads(found["metadata"])["reward_source"] == "human"


def test_what_tells_who_somebody_is_is_replaced_on_request(workplace, server):
    workplace.call("ask", "Who reads ada@example.org?")
    for options, question in (((), "Who reads ada@example.org?"), (("--redact",), "Who reads [email]?")):
        with OtlpCollector() as collector:
            workplace.call("traces", "send", "--endpoint", collector.url, *options)
        [root] = collector.of_kind("AGENT")
        assert values(root.attributes)["input.value"] == question
        assert (b"ada@example.org" in collector.bodies[0]) == (not options)


def test_a_collector_that_is_not_there_costs_a_run_one_sentence(workplace, server):
    with_setting(workplace, server, "http://127.0.0.1:9")
    asked = workplace.run("ask", "What?", "--json")
    assert asked.returncode == 0
    assert kinds(asked.stdout)[-1] == "done"
    told = [event["text"] for event in events(asked.stdout) if event["event"] == "notice"] + asked.stderr.splitlines()
    assert [line for line in told if "Traces are not sent" in line] == [
        line for line in told if "127.0.0.1:9/v1" in line
    ]
    assert sum("Traces are not sent" in line for line in told) == 1
    assert workplace.run("ask", "What?").returncode == 0


def test_a_collector_that_hangs_holds_up_no_end(workplace, server):
    with OtlpCollector(hold=threading.Event()) as collector:
        with_setting(workplace, server, collector.url)
        asked = workplace.run("ask", "What?", "--json")  # would be ended as hanging
        assert collector.asked.is_set()
    assert (asked.returncode, kinds(asked.stdout)[-1]) == (0, "done")
    assert asked.stderr == (
        "The last traces are not sent, as the collector takes too long: runs go on, and `agentflow traces send` sends "
        "what is missing.\n"
    )


def test_sending_to_a_collector_that_is_not_there_is_one_sentence(workplace, server):
    workplace.call("ask", "What?")
    sent = workplace.run("traces", "send", "--endpoint", "http://127.0.0.1:9")
    assert sent.returncode == 2
    assert sent.stderr == (
        "The collector at http://127.0.0.1:9/v1/traces cannot be reached: start it, or give the address at which it "
        "takes OTLP over HTTP (not gRPC); 0 trajectories were sent.\n"
    )
    assert workplace.run("traces", "send").stderr.startswith("No collector is named: ")


def test_a_collector_that_stops_taking_them_is_told_with_what_was_sent(workplace, tmp_path):
    from tests.any_trajectory import realistic

    file = tmp_path / "many.jsonl"
    file.write_text("".join(realistic(number, turns=5).model_dump_json() + "\n" for number in range(120)))
    with OtlpCollector(statuses=(200, 500)) as collector:
        sent = workplace.run("traces", "send", "--file", str(file), "--endpoint", collector.url)
        taken = len(collector.of_kind("AGENT"))
    assert sent.returncode == 2
    assert 0 < taken < 120
    assert sent.stderr.endswith(f"refused the spans (500 Internal Server Error); {taken} trajectories were sent.\n")


def test_known_keys_are_in_no_span(server, workplace):
    key = "sk-planted-0123456789abcdef"
    with OtlpCollector() as live, OtlpCollector() as later:
        more = f'[models.planner]\napi_key_env = "PLANTED_KEY"\n[traces]\notlp_endpoint = "{live.url}"\n'
        workplace.write_config(server.url, more)
        environment = {"PLANTED_KEY": key}
        assert workplace.run("ask", f"What opens {key}?", env=environment).returncode == 0
        sent = workplace.run("traces", "send", "--endpoint", later.url, env=environment)
        assert sent.returncode == 0, sent.stderr
        assert len(live.bodies) == len(later.bodies) == 1
        for body in (*live.bodies, *later.bodies):
            assert b"What opens" in body
            assert key.encode() not in body
