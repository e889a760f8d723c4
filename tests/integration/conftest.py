"""Servers and models that integration tests share. Imports of torch and its kin stay inside the fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from training.serve import VLLMServer

_REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The interpreter of the vLLM environment; AGENTFLOW_VLLM_PYTHON names another than `make vllm-cpu` makes."""
    python = Path(os.environ.get("AGENTFLOW_VLLM_PYTHON", _REPOSITORY / ".venv-vllm" / "bin" / "python"))
    if not python.is_file():
        pytest.skip(f"needs the vLLM environment at {python} (make vllm-cpu)")
    return python


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tiny random model in float32."""
    pytest.importorskip("torch", reason="needs the train extra")
    from tests.tiny_model import build_tiny_model

    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def vllm_server(
    vllm_python: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[VLLMServer]":
    """The tiny model, served in float32 under the name `planner`."""
    from training.serve import ServeSettings, VLLMServer

    settings = ServeSettings(
        python=vllm_python, model=str(tiny_model), dtype="float32", max_model_len=8192, enforce_eager=True
    )
    with VLLMServer(settings, log=tmp_path_factory.mktemp("vllm") / "vllm.log") as server:
        yield server
