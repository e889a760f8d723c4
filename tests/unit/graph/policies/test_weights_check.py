import json
from pathlib import Path
from typing import Any

import pytest

from graph.errors import ConfigError
from graph.policies.weights_check import Checkpoint, local_checkpoint
from tests.policy_directories import write_safetensors

HUB = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 18944,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "qwen2",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 152064,
}
"""Of Qwen2.5-7B-Instruct on the hub."""
SAVED = {
    **{name: value for name, value in HUB.items() if name not in {"rope_theta", "torch_dtype"}},
    "dtype": "bfloat16",
    "layer_types": ["full_attention"] * 28,
    "pad_token_id": None,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "sliding_window": None,
    "transformers_version": "5.24.0",
}
"""The same after `from_pretrained` and `save_pretrained` of transformers 5."""
SHAPES: dict[str, tuple[int, ...]] = {"lm_head.weight": (8, 4), "model.embed.weight": (8, 4), "model.norm.weight": (4,)}


def model(directory: Path, config: dict[str, Any] = HUB, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config))
    write_safetensors(directory / "model.safetensors", shapes)
    return directory


def sharded(directory: Path) -> Path:
    model(directory)
    (directory / "model.safetensors").unlink()
    files = {name: f"model-0000{number}-of-00003.safetensors" for number, name in enumerate(SHAPES, 1)}
    for name, file in files.items():
        write_safetensors(directory / file, {name: SHAPES[name]})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return directory


def check(new: Path, base: Path) -> None:
    Checkpoint.read(new).check_fits(Checkpoint.read(base))


def test_the_same_model_fits_however_it_was_saved(tmp_path: Path) -> None:
    base = model(tmp_path / "base")
    check(model(tmp_path / "again", SAVED), base)
    check(base, tmp_path / "again")
    check(sharded(tmp_path / "sharded"), base)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, r"architectures is \['Qwen3ForCausalLM'\]"),
        ({"num_attention_heads": 14}, "num_attention_heads is 14 in place of 28"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"rope_parameters": {"rope_theta": 10000.0}}, "rope_theta is 10000.0 in place of 1000000.0"),
        ({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "yarn", "factor": 4.0}}, "rope factor is 4.0"),
    ],
)
def test_what_would_compute_something_else_does_not_fit(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    base, new = model(tmp_path / "base"), model(tmp_path / "new", SAVED | change)
    with pytest.raises(ConfigError, match=said):
        check(new, base)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"model.norm.weight": (5,)}, r"model\.norm\.weight has the shape \[5\] in place of \[4\]"),
        ({"model.embed.weight": (4, 8)}, r"model\.embed\.weight has the shape"),
        ({"model.norm.weight": None}, r"model\.norm\.weight is missing"),
        ({"lm_head.weight": None}, r"lm_head\.weight is missing"),
        ({"a.weight": (1,), "z.weight": (1,)}, r"a\.weight is not in that model"),
    ],
)
def test_the_first_tensor_that_does_not_fit_is_named(tmp_path: Path, shapes: dict[str, Any], said: str) -> None:
    changed = {name: shape for name, shape in (SHAPES | shapes).items() if shape}
    base, new = model(tmp_path / "base"), model(tmp_path / "new", HUB, changed)
    with pytest.raises(ConfigError, match=said):
        check(new, base)


@pytest.mark.parametrize(("dtype", "fits"), [("BF16", True), ("F16", True), ("I32", False), ("F8_E4M3", False)])
def test_servers_convert_between_floats_only(tmp_path: Path, dtype: str, fits: bool) -> None:
    base, new = model(tmp_path / "base"), model(tmp_path / "new")
    file = new / "model.safetensors"
    body = file.read_bytes()
    end = 8 + int.from_bytes(body[:8], "little")
    header = body[8:end].replace(b'"F32"', f'"{dtype}"'.encode())  # the data is not read
    file.write_bytes(len(header).to_bytes(8, "little") + header + body[end:])
    if fits:
        check(new, base)
    else:
        with pytest.raises(ConfigError, match=f"type {dtype} in place of F32"):
            check(new, base)


def test_tied_embeddings_may_be_written_out_or_not(tmp_path: Path) -> None:
    tied = HUB | {"tie_word_embeddings": True}
    without = {name: shape for name, shape in SHAPES.items() if name != "lm_head.weight"}
    short, long = model(tmp_path / "short", tied, without), model(tmp_path / "long", tied)
    check(short, long)
    check(long, short)
    unsaid = {name: value for name, value in HUB.items() if name != "tie_word_embeddings"}
    check(long, model(tmp_path / "unsaid", unsaid, without))
    with pytest.raises(ConfigError, match=r"lm_head\.weight is missing"):
        check(model(tmp_path / "lost", unsaid, without), model(tmp_path / "untied", unsaid))


@pytest.mark.parametrize("file", ["config.json", "model-00002-of-00003.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    directory = sharded(tmp_path / "new")
    (directory / file).unlink()
    with pytest.raises(ConfigError, match=file):
        Checkpoint.read(directory)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors.index.json", "model-00002-of-00003.safetensors"])
@pytest.mark.parametrize("kept", [0, 4, 60, -1])
def test_a_file_that_was_cut_off_is_named(tmp_path: Path, file: str, kept: int) -> None:
    directory = sharded(tmp_path / "new")
    (directory / file).write_bytes((directory / file).read_bytes()[:kept])
    with pytest.raises(ConfigError, match=file):
        Checkpoint.read(directory)


@pytest.mark.parametrize("content", [b"[]", b'{"weight_map": []}', b"{}", b"\xff\xfe"])
def test_an_index_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    directory = sharded(tmp_path / "new")
    (directory / "model.safetensors.index.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"index\.json"):
        Checkpoint.read(directory)


def test_an_index_that_names_another_tensor_is_refused(tmp_path: Path) -> None:
    directory = sharded(tmp_path / "new")
    index = directory / "model.safetensors.index.json"
    index.write_text(index.read_text().replace("model.norm.weight", "model.other.weight"))
    with pytest.raises(ConfigError, match=r"do not agree on model\.norm\.weight"):
        Checkpoint.read(directory)


def test_a_directory_without_safetensors_is_refused(tmp_path: Path) -> None:
    directory = model(tmp_path / "new")
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="safetensors"):
        Checkpoint.read(directory)
    assert local_checkpoint(str(directory)) is None


def test_a_change_of_a_file_shows(tmp_path: Path) -> None:
    directory = sharded(tmp_path / "new")
    before = Checkpoint.read(directory)
    assert Checkpoint.read(directory) == before
    file = directory / "model-00002-of-00003.safetensors"
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    assert Checkpoint.read(directory) != before


def test_a_name_on_the_hub_is_found_in_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs the train extra")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--someone--planner"
    model(repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    found = local_checkpoint("someone/planner")
    assert found is not None
    assert found.tensors.keys() == SHAPES.keys()
    assert local_checkpoint("someone/other") is None
    assert local_checkpoint("/a/directory/of/another/machine") is None
