"""`agentflow policies` and a real vLLM server: promoted, refused, rolled back, by processes of their own."""

from pathlib import Path

import pytest

from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from tests.command import Workplace
from tests.random_adapter import random_adapter
from tests.served_policy import Call, control, forward, gap, sample
from training.serve import VLLMServer

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # PEFT uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

TEMPERATURE = 0.7
EXACT = 1e-3


@pytest.fixture
def place(vllm_server: VLLMServer, tmp_path: Path) -> Workplace:
    """A directory whose agentflow.toml names the server."""
    place = Workplace(tmp_path, vllm_server.base_url)
    (tmp_path / "agentflow.toml").write_text(
        f'[models.planner]\nmodel = "planner"\nbase_url = "{vllm_server.base_url}"\n'
    )
    return place


def run(place: Workplace, *arguments: str) -> str:
    done = place.run("policies", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def held(server: VLLMServer) -> set[str]:
    return set(control(server.base_url, VLLMControl.adapters))


def calls(server: VLLMServer, model: str) -> list[Call]:
    return [
        sample(server.base_url, model, f"Question {seed}?", temperature=TEMPERATURE, seed=seed) for seed in range(3)
    ]


def test_promoted_refused_and_rolled_back(
    vllm_server: VLLMServer, tiny_planner: Path, place: Workplace, tmp_path: Path
) -> None:
    ranks = {"planner@v1": 8, "planner@v2": 8, "planner@v3": 64}  # the server takes up to 16
    for seed, (name, rank) in enumerate(ranks.items()):
        source = random_adapter(tiny_planner, tmp_path / f"adapter{seed}", seed=seed, rank=rank)
        assert f"Added {name} " in run(place, "add", str(source), "--base-model", str(tiny_planner))
    registry = PolicyRegistry(tmp_path / ".agentflow" / "policies")
    _damage(registry, tmp_path, tiny_planner)

    assert "planner@v1 is promoted" in run(place, "promote", "planner@v1")
    assert held(vllm_server) == {"planner@v1"}
    assert "Unloaded planner@v1" in run(place, "promote", "planner@v2")
    assert (registry.promoted(), held(vllm_server)) == ("planner@v2", {"planner@v2"})

    for name, why in (("planner@v3", "rank"), ("planner@v4", "")):
        refused = place.run("policies", "promote", name)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert why in refused.stderr
        assert (registry.promoted(), held(vllm_server)) == ("planner@v2", {"planner@v2"})
    _check_answers(vllm_server, "planner@v2", registry, tiny_planner)

    assert "planner@v1 is promoted; it was planner@v2 before" in run(place, "rollback")
    _check_answers(vllm_server, "planner@v1", registry, tiny_planner)
    assert "planner@v1\tadapter\tpromoted, loaded" in run(place, "list")
    assert "base is promoted" in run(place, "rollback")
    assert (registry.promoted(), held(vllm_server)) == (None, set())


def test_loading_promotes_nothing(
    vllm_server: VLLMServer, tiny_planner: Path, place: Workplace, tmp_path: Path
) -> None:
    run(
        place, "add", str(random_adapter(tiny_planner, tmp_path / "adapter", seed=7)), "--base-model", str(tiny_planner)
    )
    run(place, "load", "planner@v1")
    assert held(vllm_server) == {"planner@v1"}
    assert "planner@v1\tadapter\tloaded" in run(place, "list")
    run(place, "unload", "planner@v1")
    assert held(vllm_server) == set()
    refused = place.run("policies", "unload", "planner@v1")
    assert (refused.returncode, "holds no adapter" in refused.stderr) == (2, True)


def _damage(registry: PolicyRegistry, tmp_path: Path, model: Path) -> None:
    """Add planner@v4, whose tensors are of another shape than the model's."""
    import torch
    from safetensors.torch import load_file, save_file

    source = random_adapter(model, tmp_path / "damaged", seed=4)
    file = source / "adapter_model.safetensors"
    tensors = load_file(file)
    save_file({name: torch.cat([tensor, tensor], dim=1) for name, tensor in tensors.items()}, file)
    assert registry.add(source, base_model=str(model)).full_name == "planner@v4"


def _check_answers(server: VLLMServer, name: str, registry: PolicyRegistry, model: Path) -> None:
    """Fail unless the server's log-probabilities are this version's."""
    found = calls(server, name)
    assert gap(found, forward(model, registry.path(name), found, temperature=TEMPERATURE)) < EXACT
    assert gap(found, forward(model, None, found, temperature=TEMPERATURE)) > 10 * EXACT
