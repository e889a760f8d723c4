from pathlib import Path

import pytest

pytest.importorskip("gguf", reason="needs the local extra")

import gguf

from graph.engine.model_header import ModelHeader
from graph.errors import ConfigError
from tests.tiny_gguf import build_tiny_gguf


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])
def test_it_says_what_the_package_says(tmp_path: Path, architecture: str) -> None:
    file = build_tiny_gguf(tmp_path / "tiny.gguf", architecture)
    header, reader = ModelHeader.read(file), gguf.GGUFReader(file)
    assert header.shapes == {tensor.name: tuple(map(int, tensor.shape)) for tensor in reader.tensors}
    expected = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.") and field.types[0] != gguf.GGUFValueType.ARRAY
    }
    assert header.fields == expected
    assert header.fields["general.architecture"] == architecture


@pytest.mark.parametrize("length", [0, 3, 20, 200, 4000])
def test_a_file_that_is_cut_off(tmp_path: Path, length: int) -> None:
    file = build_tiny_gguf(tmp_path / "tiny.gguf", "qwen2")
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ConfigError, match=r"tiny\.gguf is damaged or no GGUF file"):
        ModelHeader.read(file)


def test_numbers_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 2000)
    with pytest.raises(ConfigError, match="damaged"):
        ModelHeader.read(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        ModelHeader.read(tmp_path / "x.gguf")
