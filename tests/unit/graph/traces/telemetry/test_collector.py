import socket

import pytest

from graph.errors import CollectorError, ConfigError
from graph.traces.telemetry.address import traces_address
from graph.traces.telemetry.sending import Sender
from tests.any_trajectory import realistic
from tests.otlp_collector import OtlpCollector, values


@pytest.fixture
def sender():
    """Makes senders, and closes them."""
    made = []

    def make(endpoint: str) -> Sender:
        made.append(Sender(traces_address(endpoint)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def send(sender: Sender, *numbers: int) -> None:
    for number in numbers:
        sender.add(realistic(number))
    sender.flush()


def test_a_collector_gets_whole_traces(sender):
    with OtlpCollector() as collector:
        ours = sender(collector.url)
        send(ours, 1, 2)
    assert (ours.sent, ours.spans) == (2, len(collector.spans)) == (2, 2 * (1 + 3 + 11 + 3))
    assert len({span.trace_id for span in collector.spans}) == 2
    assert [len(collector.of_kind(kind)) for kind in ("AGENT", "CHAIN", "LLM", "TOOL")] == [2, 6, 22, 6]
    [resource] = collector.resources
    assert resource["service.name"] == "agentflow"
    assert collector.scopes == ["agentflow"]
    calls = [call for number in (1, 2) for call in realistic(number).calls]
    for call, span in zip(calls, collector.of_kind("LLM"), strict=True):
        found = values(span.attributes)
        assert found["llm.input_messages.1.message.content"] == call.messages[1]["content"]
        assert found["llm.output_messages.0.message.content"] == call.text
        assert found["llm.token_count.total"] == call.usage.prompt + call.usage.completion


def test_many_trajectories_are_sent_in_requests_of_a_bounded_size(sender):
    with OtlpCollector() as collector:
        ours = sender(collector.url)
        for number in range(150):
            ours.add(realistic(number))
        before = len(collector.bodies)
        ours.flush()
    assert before >= 2
    assert len(collector.of_kind("AGENT")) == ours.sent == 150
    assert max(map(len, collector.bodies)) < 8_000_000


def test_the_key_comes_from_the_standard_variable(sender, monkeypatch):
    with OtlpCollector(key="planted-key") as collector:
        with pytest.raises(CollectorError, match=r"refused the spans \(401 Unauthorized\): give its key in OTEL_"):
            send(sender(collector.url), 1)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=planted-key")
        send(sender(collector.url), 1)
    assert len(collector.of_kind("AGENT")) == 1


def test_standard_variables_compress_what_is_sent_and_name_a_project(sender, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "openinference.project.name=birds,service.name=other")
    with OtlpCollector() as collector:
        send(sender(collector.url), 1)
    assert collector.compressed
    [resource] = collector.resources
    assert (resource["openinference.project.name"], resource["service.name"]) == ("birds", "agentflow")


def test_a_header_that_cannot_be_sent_is_refused_without_repeating_it(sender, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=planted%0Akey")
    with OtlpCollector() as collector, pytest.raises(CollectorError, match="HEADERS") as refused:
        send(sender(collector.url), 1)
    assert "Failed to export spans" in caplog.text
    assert "planted" not in str(refused.value) + caplog.text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "give the address at which it takes OTLP"),
        (413, "raise its limit"),
        (302, r"refused the spans \(302 Found\)"),
        (500, r"refused the spans \(500 Internal Server Error\)"),
    ],
)
def test_a_collector_that_refuses_is_told_of(sender, status, words):
    with OtlpCollector(statuses=(status,)) as collector:
        ours = sender(collector.url)
        with pytest.raises(CollectorError, match=f"The collector at {collector.url}/v1/traces .*{words}"):
            send(ours, 1)
        assert (ours.sent, collector.spans) == (0, [])
        send(ours, 2)  # what failed is not sent again with it
        assert ours.sent == len(collector.of_kind("AGENT")) == 1


def test_a_collector_that_is_busy_is_asked_again(sender):
    with OtlpCollector(statuses=(503,)) as collector:
        send(sender(collector.url), 1)
    assert len(collector.of_kind("AGENT")) == 1


def test_a_collector_that_takes_only_some_spans_is_told_of(sender):
    with OtlpCollector(rejects=3) as collector, pytest.raises(CollectorError, match=r"rejected 3 spans \(too old\)"):
        send(sender(collector.url), 1)


def test_a_collector_that_is_not_there_is_told_of_at_once(sender):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, but nobody listens
        with pytest.raises(CollectorError, match="cannot be reached: start it"):
            send(sender(f"http://127.0.0.1:{free.getsockname()[1]}"), 1)


def test_a_collector_that_never_answers_is_not_waited_for_longer_than_the_variable_says(sender, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(CollectorError, match="did not answer in time"):
            send(sender(f"http://127.0.0.1:{silent.getsockname()[1]}"), 1)


def test_a_variable_that_opentelemetry_cannot_use_is_told_of(monkeypatch):
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long")
    with pytest.raises(ConfigError, match="OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        Sender("http://127.0.0.1:4318/v1/traces")
