import pytest

from graph.config import FlowConfig, load_config
from graph.errors import ConfigError
from graph.traces.telemetry.address import traces_address
from graph.traces.telemetry.sending import address_of


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        (" http://127.0.0.1:4318/v1/traces ", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/v1/traces/", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector.example/api/otel", "https://collector.example/api/otel/v1/traces"),
        ("https://collector.example/api/otel?project=7", "https://collector.example/api/otel/v1/traces?project=7"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ],
)
def test_an_endpoint_gets_the_path_of_traces_once(endpoint, address):
    assert traces_address(endpoint) == address


@pytest.mark.parametrize(
    "endpoint",
    ["", "127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://[::1", "http://host:99999", "http:/x"],
)
def test_what_is_no_address_is_refused(endpoint):
    with pytest.raises(ValueError, match="must look like"):
        traces_address(endpoint)


@pytest.mark.parametrize("endpoint", ["http://me:planted@host:4318", "http://host:4318/?api_key=planted"])
def test_a_setting_with_a_key_is_refused_without_repeating_it(endpoint):
    with pytest.raises(ConfigError, match=r"traces\.otlp_endpoint.* OTEL_EXPORTER_OTLP_HEADERS") as refused:
        load_config(overrides=[f'traces.otlp_endpoint="{endpoint}"'])
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_a_variable_with_a_key_is_refused_without_repeating_it(name, monkeypatch):
    monkeypatch.setenv(name, "http://me:planted@host:4318")
    with pytest.raises(ConfigError, match=f"^{name} cannot be used: ") as refused:
        address_of(None, None)
    assert "planted" not in str(refused.value)


def test_the_option_comes_before_the_setting_and_the_setting_before_the_variables(monkeypatch):
    with pytest.raises(ConfigError, match="No collector is named"):
        address_of(None, None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1")
    assert address_of(None, None) == "http://general:1/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:1/in")
    assert address_of(None, None) == "http://traces:1/in"
    assert address_of(None, "http://set:1") == "http://set:1/v1/traces"
    assert address_of("http://given:1", "http://set:1") == "http://given:1/v1/traces"


def test_nothing_is_sent_unless_it_is_asked_for():
    assert FlowConfig().traces.otlp_endpoint is None
