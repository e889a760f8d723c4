"""A new adapter in a running vLLM server: exact log-probabilities before, after and between versions."""

from pathlib import Path

import httpx
import pytest

from graph.errors import ConfigError, ModelError
from graph.policies.policy import versioned_name
from graph.policies.vllm_control import VLLMControl
from graph.trace import Trajectory
from tests.served_policy import Call, control, forward, gap, sample
from tests.trajectories import make_trajectory
from training.serve import VLLMServer
from training.step import StepSettings, train_one_step

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    # TRL 1.16 uses names that transformers has deprecated.
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"),
]

TEMPERATURE = 0.7
EXACT = 1e-3
PREFIX = "The memory of earlier turns holds facts about towns and rivers. " * 40
"""Long enough for several blocks of the server's prefix cache."""


def test_a_trained_adapter_answers_after_hot_load_and_old_versions_stay_right(
    vllm_server: VLLMServer, tiny_planner: Path, tmp_path: Path
) -> None:
    base = _sample(vllm_server, "planner")
    assert len(base[0][0]) > 400
    assert gap(base, forward(tiny_planner, None, base, temperature=TEMPERATURE)) < EXACT

    settings = StepSettings(learning_rate=5e-3, lora_rank=8)
    adapters = {}
    for version in (1, 2):
        name = versioned_name("planner", version)
        adapters[name] = train_one_step(
            _trajectories(base, winner=version),
            model=tiny_planner,
            out=tmp_path / name,
            settings=settings,
        )
        _load(vllm_server, name, adapters[name])
    assert _loaded(vllm_server) == {name: str(path) for name, path in adapters.items()}

    for name, path in adapters.items():
        calls = _sample(vllm_server, name)
        assert gap(calls, forward(tiny_planner, path, calls, temperature=TEMPERATURE)) < EXACT
        assert gap(calls, forward(tiny_planner, None, calls, temperature=TEMPERATURE)) > 10 * EXACT
    again = _sample(vllm_server, "planner")
    assert gap(again, forward(tiny_planner, None, again, temperature=TEMPERATURE)) < EXACT

    control(vllm_server.base_url, lambda server: server.unload_adapter("planner@v1"))
    body = {"model": "planner@v1", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    assert httpx.post(f"{vllm_server.base_url}/chat/completions", json=body, timeout=60).status_code == 404
    control(vllm_server.base_url, lambda server: server.unload_adapter("planner@v2"))
    assert _loaded(vllm_server) == {}


@pytest.mark.parametrize(
    ("name", "directory", "error"),
    [
        ("planner", "planner", ConfigError),
        ("planner@v9", "planner@v8", ConfigError),
        ("planner@v9", "planner@v9", ModelError),
    ],
)
def test_a_name_that_is_no_version_or_a_directory_that_is_not_its_own_is_refused(
    vllm_server: VLLMServer, tmp_path: Path, name: str, directory: str, error: type[Exception]
) -> None:
    (tmp_path / directory).mkdir()
    with pytest.raises(error):
        _load(vllm_server, name, tmp_path / directory)
    assert name not in _loaded(vllm_server)


def _load(server: VLLMServer, name: str, path: Path) -> None:
    control(server.base_url, lambda found: found.load_adapter(name, path))


def _loaded(server: VLLMServer) -> dict[str, str]:
    return control(server.base_url, VLLMControl.adapters)


def _sample(server: VLLMServer, model: str) -> list[Call]:
    """Two questions, four samples each, after a shared prefix that is in the cache from the first call on."""
    return [
        sample(server.base_url, model, f"{PREFIX} Question {question}?", temperature=TEMPERATURE, seed=seed)
        for question in range(2)
        for seed in range(4)
    ]


def _trajectories(calls: list[Call], *, winner: int) -> list[Trajectory]:
    """One group a question, one call a trajectory; the `winner`-th of each group is rewarded."""
    return [
        make_trajectory(
            str(i), group=str(i // 4), reward=float(i % 4 == winner), planner_calls=[call], temperature=TEMPERATURE
        )
        for i, call in enumerate(calls)
    ]
