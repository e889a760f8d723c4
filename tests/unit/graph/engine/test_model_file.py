import os
from pathlib import Path

import pytest

from graph.assets import MODELS
from graph.engine.model_file import AdapterFile, ModelFile, check_memory, memory_needed, model_file
from graph.engine.settings import LocalSettings
from graph.errors import ConfigError, SetupError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def gguf(path: Path, content: bytes = b"GGUF rest") -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["1.5b", "0.5b"])
def test_a_model_that_is_not_fetched_says_how(name: str) -> None:
    with pytest.raises(SetupError, match=r"Qwen2\.5-Coder-.*run `agentflow setup`"):
        model_file(LocalSettings(model=name))


def test_half_a_model_is_not_a_model(cache: Path) -> None:
    (cache / "models").mkdir(parents=True)
    (cache / "models" / MODELS["0.5b"].filename).write_bytes(b"GGUF")
    with pytest.raises(SetupError):
        model_file(LocalSettings(model="0.5b"))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = gguf(tmp_path / "mine.gguf")
    first = model_file(LocalSettings(model=str(path)))
    assert (first.path, first.name, first.size) == (path, "mine", 9)
    assert model_file(LocalSettings(model=str(path))) == first
    gguf(path, b"GGUF other")
    assert model_file(LocalSettings(model=str(path))).identity != first.identity


@pytest.mark.parametrize("model", ["7b", "missing.gguf", ".", "/nowhere/x.gguf"])
def test_what_cannot_be_read_names_the_choices(model: str) -> None:
    with pytest.raises(ConfigError, match=r'local\.model = ".*" cannot be read .*"1.5b" or "0.5b"'):
        model_file(LocalSettings(model=model))


def test_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a GGUF file"):
        model_file(LocalSettings(model=str(gguf(tmp_path / "x.gguf", b"PK\x03\x04"))))


@pytest.mark.parametrize(("name", "measured"), [("1.5b", 2.55e9), ("0.5b", 0.95e9)])
def test_memory_is_estimated_near_what_was_measured(name: str, measured: float) -> None:
    asset = MODELS[name]
    model = ModelFile(Path("x"), "x", "x", asset.size)
    assert measured < memory_needed(model, LocalSettings(model=name)) < 1.6 * measured


@pytest.mark.parametrize(("name", "adapter", "measured"), [("1.5b", 74e6, 2.07e9), ("0.5b", 35e6, 0.73e9)])
def test_an_adapter_s_engine_needs_one_slot(name: str, adapter: float, measured: float) -> None:
    model = ModelFile(Path("x"), "x", "x", MODELS[name].size)
    needed = memory_needed(model, LocalSettings(model=name), AdapterFile(Path("a"), "a", "a", int(adapter)))
    assert measured < needed < 1.7 * measured
    assert needed < memory_needed(model, LocalSettings(model=name))


def test_too_little_memory_offers_the_smaller_model() -> None:
    enormous = ModelFile(Path("x"), "x", "x", 1 << 45)
    with pytest.raises(ConfigError, match=r'set local\.model = "0.5b" or a smaller local\.context_per_slot'):
        check_memory(enormous, LocalSettings())
    with pytest.raises(ConfigError, match=r"set a smaller local\.context_per_slot"):
        check_memory(enormous, LocalSettings(model="0.5b"))
    check_memory(ModelFile(Path("x"), "x", "x", 1), LocalSettings(context_per_slot=512))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = gguf(tmp_path / "x.gguf")
    path.chmod(0)
    with pytest.raises(ConfigError, match="Permission denied"):
        model_file(LocalSettings(model=str(path)))
