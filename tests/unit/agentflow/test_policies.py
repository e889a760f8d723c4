import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.errors import ConfigError, ModelError
from tests.command import Workplace
from tests.fakes import ScriptedServer
from tests.flows import scripts
from tests.policy_directories import adapter_directory, weights_directory
from tests.policy_server import PolicyServer
from tests.unit.agentflow.conftest import Call


@pytest.fixture
def served() -> Iterator[PolicyServer]:
    with PolicyServer(scripts(), repeat=True) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, served: PolicyServer) -> Workplace:
    """A directory with an agentflow.toml that names the server, an adapter in `adapter`, a model in `weights`."""
    place = Workplace(tmp_path, served.url)
    config = tmp_path / "agentflow.toml"
    config.write_text(config.read_text().replace("test-model", "planner"))
    adapter_directory(tmp_path / "adapter")
    weights_directory(tmp_path / "weights")
    return place


def added(call: Call, *, times: int = 2) -> None:
    for _ in range(times):
        call("policies", "add", "adapter")


def test_from_an_adapter_to_an_answer(call: Call, served: PolicyServer) -> None:
    options = ("--notes", "the first\x1b[31m", "--metric", "accuracy=0.25", "--training-run", "run-1")
    assert call("policies", "add", "adapter", *options) == "Added planner@v1 (adapter of /models/base).\n"
    assert (
        call("policies", "add", "adapter", "--parent", "planner@v1") == "Added planner@v2 (adapter of /models/base).\n"
    )
    assert call("policies", "promote", "planner@v1") == "planner@v1 is promoted; it was base before.\n"
    assert list(served.adapters) == ["planner@v1"]
    lines = [line.split("\t") for line in call("policies", "list").splitlines()]
    assert [line[:3] for line in lines] == [
        ["planner@v1", "adapter", "promoted, loaded"],
        ["planner@v2", "adapter", ""],
    ]
    assert lines[0][-2:] == ["/models/base", "the first"]
    call("ask", "What is 40 + 2?", "--no-stream")
    assert {body["model"] for body in served.of("planner")} == {"planner@v1"}
    assert {body["model"] for body in served.of("verifier")} == {"planner"}

    text = call("policies", "show", "planner@v1")
    for part in ("promoted, loaded", "/models/base", "run-1", "accuracy 0.25", "adapter_model.safetensors"):
        assert part in text
    assert "\x1b" not in text
    shown = json.loads(call("policies", "show", "planner@v2", "--json"))
    assert (shown["policy"], shown["parent"], shown["promoted"], shown["loaded"]) == (
        "planner@v2",
        "planner@v1",
        False,
        False,
    )
    assert [row["metrics"] for row in map(json.loads, call("policies", "list", "--json").splitlines())] == [
        {"accuracy": 0.25},
        {},
    ]


def test_promoting_and_rolling_back(call: Call, served: PolicyServer) -> None:
    added(call)
    call("policies", "promote", "planner@v1")
    done = json.loads(call("policies", "promote", "planner@v2", "--json", "--keep-old"))
    assert done == {"before": "planner@v1", "now": "planner@v2", "loaded": True, "unloaded": []}
    assert call("policies", "rollback") == ("planner@v1 is promoted; it was planner@v2 before. Unloaded planner@v2.\n")
    assert call("policies", "promote", "planner@v1") == "planner@v1 is promoted, as before.\n"
    call("policies", "rollback")
    assert served.adapters == {}
    with pytest.raises(ConfigError, match="nothing to go back to"):
        call("policies", "rollback")


def test_loading_removing_and_asking_for_a_version(call: Call, served: PolicyServer) -> None:
    added(call)
    assert call("policies", "load", "planner@v2") == f"planner@v2 is loaded at {served.url}.\n"
    assert "planner@v2\tadapter\tloaded" in call("policies", "list")
    assert "not loaded" in call("policies", "unload", "planner@v2")
    with pytest.raises(ConfigError, match="planner@v2 is not loaded"):
        call("policies", "unload", "planner@v2")
    call("policies", "promote", "planner@v1")
    for use, name in (("planner@v2", "planner@v2"), ("base", "planner"), ("promoted", "planner@v1")):
        served.requests.clear()
        served.roles.clear()
        call("ask", "What is 40 + 2?", "--no-stream", "--policy", use)
        assert {body["model"] for body in served.of("planner")} == {name}
    with pytest.raises(ConfigError, match="planner@v1 is promoted"):
        call("policies", "remove", "planner@v1")
    assert call("policies", "remove", "planner@v2") == "Removed planner@v2.\n"


@pytest.mark.parametrize("name", ["planner@v9", "planner", "", "../planner@v1", "promoted", "v1"])
def test_names_that_are_none(call: Call, place: Workplace, name: str) -> None:
    added(call, times=1)
    for command in ("show", "promote", "load", "remove"):
        with pytest.raises(ConfigError, match=r"names no policy version|no policy planner@v9 .* planner@v1"):
            call("policies", command, name)
    assert not (place.directory / ".agentflow" / "policies" / "promoted.json").exists()


@pytest.mark.parametrize("name", ["planner@v9", "plannr@v1", "a b"])
def test_asking_for_a_version_that_is_none_is_one_sentence(call: Call, place: Workplace, name: str) -> None:
    added(call, times=1)
    done = place.run("ask", "What is 40 + 2?", "--policy", name)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "names no policy version" in done.stderr or "did you mean planner@v1?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "no directory nowhere"),
        (("adapter", "--metric", "accuracy"), "must look like accuracy=0.5"),
        (("adapter", "--metric", "accuracy=nan"), "must look like accuracy=0.5"),
        (("adapter", "--metric", "=1"), "must look like accuracy=0.5"),
        (("adapter", "--name", "a/b"), "names no policy version"),
        (("adapter", "--base-model", "other"), "belongs to /models/base, not to other"),
        (("adapter", "--parent", "planner@v1"), "no policy planner@v1"),
        (("weights",), "--base-model"),
    ],
)
def test_what_cannot_be_added(call: Call, place: Workplace, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call("policies", "add", *arguments)
    assert call("policies", "list", "--json") == ""


def test_nothing_there_yet(call: Call, place: Workplace) -> None:
    assert call("policies", "list") == ""
    assert not (place.directory / ".agentflow").exists()


def test_a_server_that_refuses(call: Call, served: PolicyServer) -> None:
    added(call)
    call("policies", "promote", "planner@v1")
    served.load_refusal = "rank 64 is greater than 16"
    with pytest.raises(ModelError, match="rank 64"):
        call("policies", "promote", "planner@v2")
    assert "planner@v1\tadapter\tpromoted, loaded" in call("policies", "list")
    call("policies", "add", "weights", "--base-model", "/models/base")
    with pytest.raises(ConfigError, match=r"serve\.full_weights"):
        call("policies", "promote", "planner@v3")


def test_nobody_at_the_address(call: Call, place: Workplace) -> None:
    added(call, times=1)
    nobody = ("--server", "http://127.0.0.1:9/v1")
    assert "planner@v1\tadapter\t\t" in call("policies", "list", *nobody)
    done = place.run("policies", "promote", "planner@v1", *nobody)
    assert (done.returncode, done.stdout) == (0, "planner@v1 is promoted; it was base before.\n")
    assert "does not answer; the next question loads it" in done.stderr
    done = place.run("policies", "load", "planner@v1", *nobody)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No answer from the model server" in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9/v1", "takes an address such as http://"),
        ("ftp://127.0.0.1:9", "takes an address such as http://"),
        ("http://", "takes an address such as http://"),
        ("http://[", "takes an address such as http://"),
        ("http://user:s3cretpw@127.0.0.1:9/v1", "holds a key: name its variable"),
        ("http://127.0.0.1:9/v1?api_key=s3cretpw", "holds a key: name its variable"),
    ],
)
def test_a_server_s_address_that_is_none(call: Call, place: Workplace, address: str, message: str) -> None:
    added(call, times=1)
    for command in ("promote", "load"):
        done = place.run("policies", command, "planner@v1", "--server", address)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr
        assert "s3cretpw" not in done.stderr
    assert "promoted" not in call("policies", "list")


def test_a_server_by_its_root(call: Call, served: PolicyServer) -> None:
    added(call, times=1)
    call("policies", "promote", "planner@v1", "--server", served.url.removesuffix("/v1"))
    assert list(served.adapters) == ["planner@v1"]


def test_a_server_that_is_not_vllm_or_not_well(call: Call, place: Workplace) -> None:
    added(call, times=1)
    with ScriptedServer({}) as other, pytest.raises(ConfigError, match="is not vLLM: correct --server"):
        call("policies", "promote", "planner@v1", "--server", other.url)
    with Starting({}) as starting:
        config = place.directory / "agentflow.toml"
        config.write_text(f'[models.default]\nmodel = "planner"\nbase_url = "{starting.url}"\n')
        with pytest.raises(ModelError, match="answers 503: try again when it is well"):
            call("policies", "promote", "planner@v1")
    assert "promoted" not in call("policies", "list")


def test_a_planner_s_address_that_is_none(call: Call, place: Workplace) -> None:
    added(call, times=1)
    config = place.directory / "agentflow.toml"
    config.write_text('[models.planner]\nmodel = "planner"\nbase_url = "localhost:9/v1"\n')
    with pytest.raises(ConfigError, match=r"models\.planner\.base_url takes an address such as http://"):
        call("policies", "promote", "planner@v1")
    assert "promoted" not in call("policies", "list")


def test_what_speaks_no_http_is_no_server_that_is_away(call: Call, place: Workplace) -> None:
    added(call, times=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        greeting = threading.Thread(target=greet, args=(listening,))
        greeting.start()
        with pytest.raises(ConfigError, match="No model server answers"):
            call("policies", "promote", "planner@v1", "--server", f"http://127.0.0.1:{listening.getsockname()[1]}")
        greeting.join()
    assert "promoted" not in call("policies", "list")


def greet(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(b"SSH-2.0-other\r\n")


class Starting(ScriptedServer):
    """A proxy before a server that is not there yet."""

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        return 503, {"error": {"message": "starting"}}


def test_a_planner_that_no_vllm_serves(call: Call, place: Workplace) -> None:
    added(call, times=1)
    call("policies", "add", "weights", "--base-model", "/models/base")
    config = place.directory / "agentflow.toml"
    config.write_text('[models.planner]\nmodel = "local"\n')
    done = place.run("policies", "promote", "planner@v1")
    assert (done.returncode, done.stdout) == (0, "planner@v1 is promoted; it was base before.\n")
    assert "the embedded engine loads a policy by itself" in done.stderr
    with pytest.raises(ConfigError, match="full weights, which the embedded engine does not read"):
        call("policies", "promote", "planner@v2")
    with pytest.raises(ConfigError, match="No policy can be loaded"):
        call("policies", "load", "planner@v1")
    config.write_text('[models.planner]\nmodel = "openai:gpt-x"\n')
    done = place.run("policies", "promote", "planner@v2")
    assert done.returncode == 0
    assert "openai:gpt-x is neither served by vLLM nor the embedded model" in done.stderr


def test_a_key_is_sent_and_never_shown(place: Workplace) -> None:
    with PolicyServer({}, key="s3cret-key") as server:
        config = place.directory / "agentflow.toml"
        config.write_text(f'[models.default]\nmodel = "planner"\nbase_url = "{server.url}"\napi_key_env = "OUR_KEY"\n')
        place.call("policies", "add", "adapter")
        done = place.run("policies", "promote", "planner@v1")
        assert (done.returncode, "OUR_KEY is not set" in done.stderr) == (2, True)
        wrong = place.run("policies", "promote", "planner@v1", env={"OUR_KEY": "wr0ng-key"})
        assert wrong.returncode == 2
        assert "wr0ng-key" not in wrong.stderr + wrong.stdout
        assert "wants a key" in wrong.stderr
        right = place.run("policies", "promote", "planner@v1", env={"OUR_KEY": "s3cret-key"})
        assert (right.returncode, list(server.adapters)) == (0, ["planner@v1"])
