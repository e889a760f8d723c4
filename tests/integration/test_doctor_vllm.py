"""The doctor before a real vLLM that was started without what training needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graph.serve_settings import ServeSettings
from tests.command import Workplace
from training.serve import VLLMServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bare(vllm_python: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server as `vllm serve MODEL` starts it."""
    log = tmp_path_factory.mktemp("bare") / "vllm.log"
    settings = ServeSettings(
        python=vllm_python,
        max_model_len=512,
        enforce_eager=True,
        flags=("--no-enable-lora", "--logprobs-mode", "raw_logprobs", "--generation-config", "auto"),
    )
    with VLLMServer(str(tiny_model), settings, log=log) as server:
        yield server.base_url


def test_every_setting_that_makes_training_wrong_is_a_note(bare: str, tmp_path: Path) -> None:
    place = Workplace(tmp_path, bare)
    extra = "{top_k = 20, presence_penalty = 0.5, stop = ['x'], min_p = 0}"
    settings = {
        "models.default.model": "planner",
        "models.planner.structured": "json_schema",
        "models.planner.top_p": "0.9",
        "models.planner.temperature": "0",
        "models.planner.seed": "1",
        "models.planner.extra": extra,
    }
    done = place.run("doctor", *(part for key, value in settings.items() for part in ("--set", f"{key}={value}")))
    assert done.returncode == 0, done.stdout + done.stderr
    notes = [line for line in done.stdout.splitlines() if line.startswith("note      training: ")]
    for said in (
        "raw_logprobs",
        "loads no adapters while it runs",
        "structured is json_schema",
        "top_p is 0.9",
        "temperature is 0",
        "seed is 1",
        "extra.top_k is 20",
        "extra.presence_penalty is 0.5",
        "extra.stop ",
    ):
        assert sum(said in note for note in notes) == 1, (said, notes)
    assert len(notes) == 9
    assert "(vLLM 0." in done.stdout
    assert "context 512 tokens" in done.stdout
