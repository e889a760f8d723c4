import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf", reason="needs the local extra")

import gguf
from safetensors.numpy import save_file

from graph.engine.model_file import ModelFile, model_file
from graph.engine.settings import LocalSettings
from graph.errors import ConfigError, SetupError
from graph.policies.gguf_lora import AdapterFiles, convert_adapter, converted_path
from graph.policies.peft_adapter import PeftAdapter
from tests.tiny_gguf import build_tiny_gguf

Tensors = dict[str, np.ndarray[Any, Any]]
_Q = "base_model.model.model.layers.1.self_attn.q_proj"
_DOWN = "base_model.model.model.layers.0.mlp.down_proj"
_ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(cache: Path, tmp_path: Path) -> ModelFile:
    return tiny(tmp_path, "qwen2")


def tiny(directory: Path, architecture: str) -> ModelFile:
    file = build_tiny_gguf(directory / f"{architecture}.gguf", architecture)
    return model_file(LocalSettings(model=str(file)))


def pair(name: str, inputs: int = 512, outputs: int = 512, rank: int = 4) -> Tensors:
    random = np.random.default_rng(len(name))
    return {
        f"{name}.lora_A.weight": random.normal(size=(rank, inputs)).astype(np.float32),
        f"{name}.lora_B.weight": random.normal(size=(outputs, rank)).astype(np.float32),
    }


def write(directory: Path, tensors: Tensors | None = None, **config: Any) -> AdapterFiles:
    directory.mkdir(exist_ok=True)
    save_file(pair(_Q) | pair(_DOWN) if tensors is None else tensors, directory / "adapter_model.safetensors")
    fields = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"]} | config
    (directory / "adapter_config.json").write_text(json.dumps(fields))
    return AdapterFiles(directory, {})


def read(file: Path) -> tuple[dict[str, Any], Tensors]:
    reader = gguf.GGUFReader(file)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {tensor.name: tensor.data for tensor in reader.tensors}


def test_a_lora_of_llama_cpp_comes_out(model: ModelFile, tmp_path: Path) -> None:
    file = convert_adapter(write(tmp_path / "a"), model)
    fields, tensors = read(file)
    assert fields["general.type"] == "adapter"
    assert fields["adapter.type"] == "lora"
    assert fields["adapter.lora.alpha"] == 8
    assert fields["general.architecture"] == "qwen2"
    expected = {"blk.1.attn_q.weight": pair(_Q), "blk.0.ffn_down.weight": pair(_DOWN)}
    assert tensors.keys() == {f"{name}.lora_{side}" for name in expected for side in "ab"}
    for name, halves in expected.items():
        a, b = halves.values()
        np.testing.assert_array_equal(tensors[f"{name}.lora_a"], a)
        np.testing.assert_array_equal(tensors[f"{name}.lora_b"], b)


def test_scales_that_llama_cpp_has_no_field_for_go_into_b(model: ModelFile, tmp_path: Path) -> None:
    b = pair(_Q)[f"{_Q}.lora_B.weight"]
    rslora = read(convert_adapter(write(tmp_path / "a", use_rslora=True), model))
    np.testing.assert_allclose(rslora[1]["blk.1.attn_q.weight.lora_b"], 2 * b)  # 8 / sqrt(4) in place of 8 / 4
    patterned = read(convert_adapter(write(tmp_path / "b", alpha_pattern={r"layers\.1\..*": 24}), model))
    assert patterned[0]["adapter.lora.alpha"] == 8
    np.testing.assert_allclose(patterned[1]["blk.1.attn_q.weight.lora_b"], 3 * b)
    np.testing.assert_array_equal(patterned[1]["blk.0.ffn_down.weight.lora_b"], pair(_DOWN)[f"{_DOWN}.lora_B.weight"])


@pytest.mark.parametrize(
    ("patterns", "scale"),
    [
        ({"q_proj": 4}, 1.0),
        ({"proj": 4}, 2.0),  # not the end of a part of the name
        ({"layers.1.self_attn.q_proj": 4, "q_proj": 40}, 1.0),  # the first
        ({"^model.layers.1.*": 4}, 1.0),
        ({"layers.0.*": 4}, 2.0),
    ],
)
def test_patterns_match_as_in_peft(tmp_path: Path, patterns: dict[str, int], scale: float) -> None:
    adapter = PeftAdapter.read(write(tmp_path / "a", alpha_pattern=patterns).directory)
    assert adapter.pairs["model.layers.1.self_attn.q_proj"].scale == scale


def test_a_rank_of_its_own(model: ModelFile, tmp_path: Path) -> None:
    files = write(tmp_path / "a", pair(_Q) | pair(_DOWN, rank=2), rank_pattern={"down_proj": 2})
    tensors = read(convert_adapter(files, model))[1]
    assert tensors["blk.0.ffn_down.weight.lora_a"].shape == (2, 512)
    np.testing.assert_array_equal(
        tensors["blk.0.ffn_down.weight.lora_b"], pair(_DOWN, rank=2)[f"{_DOWN}.lora_B.weight"]
    )


def test_rotated_pairs_become_neighbours_in_llama(cache: Path, tmp_path: Path) -> None:
    b = pair(_Q)[f"{_Q}.lora_B.weight"]
    converted = read(convert_adapter(write(tmp_path / "a"), tiny(tmp_path, "llama")))[1]
    moved = converted["blk.1.attn_q.weight.lora_b"]
    for head in range(4):
        for number in range(64):  # of a head of 128
            np.testing.assert_array_equal(moved[head * 128 + 2 * number], b[head * 128 + number])
            np.testing.assert_array_equal(moved[head * 128 + 2 * number + 1], b[head * 128 + number + 64])
    np.testing.assert_array_equal(converted["blk.0.ffn_down.weight.lora_b"], pair(_DOWN)[f"{_DOWN}.lora_B.weight"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_read_exactly(tmp_path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the train extra")
    from safetensors.torch import save_file as save

    write(tmp_path / "a")
    tensors = {name: torch.from_numpy(value).to(getattr(torch, dtype)) for name, value in pair(_Q).items()}
    save(tensors, tmp_path / "a" / "adapter_model.safetensors")
    found = PeftAdapter.read(tmp_path / "a").pairs["model.layers.1.self_attn.q_proj"]
    np.testing.assert_array_equal(found.a, tensors[f"{_Q}.lora_A.weight"].float().numpy())
    np.testing.assert_array_equal(found.b, tensors[f"{_Q}.lora_B.weight"].float().numpy())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_dora": True}, "uses DoRA, which the embedded engine cannot apply"),
        ({"bias": "all"}, "trained biases"),
        ({"bias": "lora_only"}, "trained biases"),
        ({"lora_bias": True}, "lora_bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"layer_replication": [[0, 2], [0, 2]]}, "layer_replication"),
        ({"target_parameters": ["mlp.experts"]}, "target_parameters"),
        ({"alora_invocation_tokens": [1]}, "aLoRA"),
        ({"use_qalora": True}, "QALoRA"),
        ({"use_bdlora": {"nblocks": 2}}, "block-diagonal"),
        ({"arrow_config": {"top_k": 3}}, "Arrow"),
        ({"init_lora_weights": "pissa_niter_4"}, "changes the model's own weights.*pissa_niter_4"),
        ({"peft_type": "LOHA"}, r"adapter_config\.json cannot be used \(peft_type"),
        ({"r": 0}, "cannot be used .r: Input should be greater than 0"),
        ({"lora_alpha": 0}, "cannot be used .lora_alpha"),
        ({"alpha_pattern": {"[": 3}}, "a pattern is wrong"),
        ({"r": 8}, r"lora_A \[4, 512\] and lora_B \[512, 4\], where adapter_config\.json says rank 8"),
    ],
)
def test_what_cannot_be_applied_is_refused(
    model: ModelFile, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        convert_adapter(write(tmp_path / "a", **options), model)
    assert "\n" not in str(caught.value)
    assert not list(converted_path(AdapterFiles(tmp_path / "a", {}), model).parent.glob("*.gguf"))


@pytest.mark.parametrize("start", [True, False, "gaussian", "eva", "orthogonal"])
def test_starts_that_leave_the_model_as_it_is(tmp_path: Path, start: bool | str) -> None:
    assert PeftAdapter.read(write(tmp_path / "a", init_lora_weights=start).directory).pairs


_LAYER = "base_model.model.model.layers.0.self_attn"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"base_model.model.model.embed_tokens.lora_embedding_A": np.zeros((4, 9), "f4")}, "of the embeddings"),
        ({f"{_LAYER}.q_proj.lora_magnitude_vector": np.zeros(4, "f4")}, "uses DoRA"),
        ({f"{_LAYER}.q_proj.bias": np.zeros(4, "f4")}, r"beside the products .*q_proj\.bias"),
        ({"base_model.model.lm_head.base_layer.weight": np.zeros((9, 4), "f4")}, "beside the products"),
        ({f"{_LAYER}.q_proj.lora_A.weight": np.zeros((4, 512), "f4")}, "only one of lora_A and lora_B"),
        ({f"{_LAYER}.q_proj.lora_A.weight": np.zeros((4, 512), "i4")}, "the type I32 in place of F32"),
        ({}, "holds no tensor"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, tensors: Tensors, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PeftAdapter.read(write(tmp_path / "a", tensors).directory)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (pair(_Q, inputs=896, outputs=896), r"whose model\.layers\.1\.self_attn\.q_proj is \(512, 512\) where .*896"),
        (pair(_Q.replace("layers.1", "layers.2")), r"does not fit qwen2\.gguf, which has no model\.layers\.2\."),
        (pair("base_model.model.model.layers.0.mlp.experts.3.up_proj"), "which has no .*experts"),
    ],
)
def test_an_adapter_of_another_model(model: ModelFile, tmp_path: Path, tensors: Tensors, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        convert_adapter(write(tmp_path / "a", tensors), model)


def test_an_architecture_that_nobody_tried(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"of the architecture gemma3, .* qwen2, qwen3, llama alone"):
        convert_adapter(write(tmp_path / "a"), tiny(tmp_path, "gemma3"))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("adapter_model.safetensors", cut),
        ("adapter_model.safetensors", Path.unlink),
        ("adapter_model.safetensors", lambda file: file.write_bytes(b"")),
        ("adapter_config.json", cut),
        ("adapter_config.json", Path.unlink),
        ("adapter_config.json", lambda file: file.write_text("[]")),
    ],
)
def test_a_damaged_adapter(model: ModelFile, tmp_path: Path, name: str, damage: Callable[[Path], object]) -> None:
    files = write(tmp_path / "a")
    damage(tmp_path / "a" / name)
    with pytest.raises(
        ConfigError, match=rf"{name} (cannot be used|cannot be read) \(.*add the adapter again"
    ) as caught:
        convert_adapter(files, model)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_the_one_that_was_added(model: ModelFile, tmp_path: Path) -> None:
    files = write(tmp_path / "a")
    noted = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files.directory.iterdir()}
    write(tmp_path / "a", lora_alpha=16)
    with pytest.raises(ConfigError, match=r"adapter_config\.json is not the file that was added"):
        convert_adapter(AdapterFiles(files.directory, noted), model)


def test_it_is_made_once_for_what_goes_into_it(model: ModelFile, tmp_path: Path) -> None:
    files = write(tmp_path / "a")
    first = convert_adapter(files, model)
    made = first.stat().st_ino
    assert convert_adapter(write(tmp_path / "b"), model) == first
    assert first.stat().st_ino == made
    others = [
        converted_path(write(tmp_path / "c", lora_alpha=9), model),
        converted_path(write(tmp_path / "d", pair(_Q)), model),
        converted_path(files, dataclasses.replace(model, identity="another")),
    ]
    assert len({first, *others}) == 4


def test_the_longest_unused_are_dropped(model: ModelFile, tmp_path: Path) -> None:
    made = [convert_adapter(write(tmp_path / f"a{alpha}", lora_alpha=alpha), model) for alpha in range(1, 9)]
    for age, file in enumerate(made):
        os.utime(file, (1000 + age, 1000 + age))
    convert_adapter(AdapterFiles(tmp_path / "a1", {}), model)  # used again
    newest = convert_adapter(write(tmp_path / "a9", lora_alpha=9), model)
    assert set(newest.parent.glob("*.gguf")) == {made[0], *made[2:], newest}


_CONVERT = """
import pathlib, sys
from graph.engine import LocalSettings
from graph.engine.model_file import model_file
from graph.policies.gguf_lora import AdapterFiles, convert_adapter
print("ready", flush=True)
input()
print(convert_adapter(AdapterFiles(pathlib.Path(sys.argv[1]), {}), model_file(LocalSettings(model=sys.argv[2]))))
"""


def elsewhere(files: AdapterFiles, model: ModelFile) -> subprocess.Popen[str]:
    """A process that is about to convert."""
    command = [sys.executable, "-c", _CONVERT, str(files.directory), str(model.path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def large(directory: Path) -> AdapterFiles:
    """Takes a moment to convert."""
    rank, names = (
        1024,
        [f"base_model.model.model.layers.{layer}.mlp.{part}_proj" for layer in (0, 1) for part in ("up", "down")],
    )
    return write(directory, {key: value for name in names for key, value in pair(name, rank=rank).items()}, r=rank)


def test_processes_at_once_make_one_file(model: ModelFile, tmp_path: Path) -> None:
    files = large(tmp_path / "a")
    processes = [elsewhere(files, model) for _ in range(3)]
    for process in processes:
        go(process)
    paths = {Path(process.communicate(timeout=60)[0].strip()) for process in processes}
    assert paths == {converted_path(files, model)}
    assert {file.name for file in paths.pop().parent.iterdir()} == {converted_path(files, model).name, "convert.lock"}


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2])
def test_a_killed_conversion_leaves_nothing_that_hinders(model: ModelFile, tmp_path: Path, delay: float) -> None:
    files = large(tmp_path / "a")
    path = converted_path(files, model)
    with elsewhere(files, model) as process:
        go(process)
        deadline = time.monotonic() + 30
        while not (path.with_name("converting.part").exists() or path.exists()) and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if path.exists():
        assert len(read(path)[1]) == 8, "whole or not there"
    convert_adapter(files, model)
    assert len(read(path)[1]) == 8
    assert {file.name for file in path.parent.iterdir()} == {path.name, "convert.lock"}


def test_a_cache_that_cannot_be_used(model: ModelFile, cache: Path, tmp_path: Path) -> None:
    files = write(tmp_path / "a")
    cache.write_text("in the way")
    with pytest.raises(SetupError, match="set AGENTFLOW_CACHE_DIR to a folder"):
        convert_adapter(files, model)


@pytest.mark.parametrize("package", ["gguf", "safetensors"])
def test_without_the_extra(model: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    files = write(tmp_path / "a")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SetupError, match=r'pip install "agentflow\[local\]"'):
        convert_adapter(files, model)
