import sys
from pathlib import Path

import pytest

from graph.engine import LocalSettings, engine_status, ensure_engine, running_engines, stop_engine
from graph.engine.home import all_homes, engines_directory
from graph.errors import ConfigError, SetupError


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalSettings:
    """Settings for a file that begins like a model and goes on like none."""
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 2000)
    return LocalSettings(model=str(path), context_per_slot=512)


def test_an_engine_that_dies_at_its_start_says_why(damaged: LocalSettings) -> None:
    pytest.importorskip("xllamacpp", reason="needs the local extra")
    for _ in range(2):  # the first failure leaves nothing that hinders the second
        with pytest.raises(ConfigError, match=r"did not start: gguf.*the whole log is .*engine\.log") as caught:
            ensure_engine(damaged)
        assert "\n" not in str(caught.value)
    (home,) = all_homes()
    assert home.read_state() is None
    assert not home.engine_lives()


def test_without_xllamacpp_it_says_what_to_install(damaged: LocalSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(SetupError, match=r'pip install "agentflow\[local\]"'):
        ensure_engine(damaged)


def test_a_cache_that_is_a_file(damaged: LocalSettings, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(SetupError, match="set AGENTFLOW_CACHE_DIR to a folder"):
        ensure_engine(damaged)


def test_nothing_runs_on_a_fresh_machine(damaged: LocalSettings) -> None:
    assert engine_status(damaged) is None
    assert running_engines() == []
    assert not stop_engine(damaged)
    assert not stop_engine()
    assert not engines_directory().exists(), "looking creates nothing"
