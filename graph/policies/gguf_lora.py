"""Makes of a PEFT LoRA adapter the GGUF file that llama.cpp applies to a model.

llama.cpp adds alpha / rank · B · A to each matrix, with one alpha for the whole file, and A and B as PEFT stores them.
Where PEFT's scale of a matrix is another (rslora, alpha_pattern), B is multiplied with the rest. Models of the `llama`
architecture have the rows of their query and key matrices in another order than Hugging Face's files; so B's rows are
moved. The result is kept in the user's cache directory under the hash of all that went into it.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from graph.corpus.location import cache_directory
from graph.engine.model_file import ModelFile
from graph.engine.model_header import ModelHeader
from graph.errors import ConfigError, SetupError
from graph.policies.peft_adapter import CONFIG_FILE, TENSOR_FILE, PeftAdapter

if TYPE_CHECKING:
    from graph.policies.peft_adapter import LoraPair, Matrix

_REVISION = 1
"""Raised when files are made otherwise, so that an earlier release's are not taken for new ones."""
_ARCHITECTURES = ("qwen2", "qwen3", "llama")
"""Those that tests/integration/test_embedded_policy.py proves: others may arrange their matrices otherwise."""
_KEPT = 8
"""Converted adapters that stay in the cache; the longest unused goes first."""
_LOCK_SECONDS = 300.0


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter and the hashes that its registry noted; of a file without one it is computed."""

    directory: Path
    noted: Mapping[str, str]

    def sha256(self, name: str) -> str:
        """Return a file's hash, as noted where it is."""
        return self.noted.get(name) or self.computed(name)

    def computed(self, name: str) -> str:
        """Hash a file.

        Raises:
            ConfigError: it cannot be read.
        """
        file = self.directory / name
        try:
            with file.open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise ConfigError(f"{file} cannot be read ({error.strerror}): add the adapter again.") from error

    def check(self) -> None:
        """Compare the files with what was noted.

        Raises:
            ConfigError: one is not the one that was added.
        """
        for name in (CONFIG_FILE, TENSOR_FILE):
            if self.computed(name) != self.sha256(name):
                raise ConfigError(f"{self.directory / name} is not the file that was added: add the adapter again.")


def converted_path(files: AdapterFiles, model: ModelFile) -> Path:
    """Return where the converted adapter lies, or will lie."""
    parts = [str(_REVISION), files.sha256(TENSOR_FILE), files.sha256(CONFIG_FILE), model.identity]
    return cache_directory() / "adapters" / f"{hashlib.sha256(' '.join(parts).encode()).hexdigest()}.gguf"


def convert_adapter(files: AdapterFiles, model: ModelFile) -> Path:
    """Return the adapter as a GGUF LoRA for `model`, made unless it is there. Processes that ask at once make it once.

    Raises:
        ConfigError: the adapter is damaged, is of another model, or does what llama.cpp cannot apply.
        SetupError: the `local` extra is not installed, or the cache directory cannot hold the file.
    """
    path = converted_path(files, model)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with filelock.FileLock(path.parent / "convert.lock", timeout=_LOCK_SECONDS):
            if path.is_file():
                os.utime(path)
            else:
                files.check()
                _write(path, PeftAdapter.read(files.directory), ModelHeader.read(model.path))
                _drop_unused(path.parent)
    except filelock.Timeout as error:
        raise ConfigError(
            f"Another command has been converting an adapter for {_LOCK_SECONDS:.0f} s: end it and try again."
        ) from error
    except OSError as error:
        raise SetupError(
            f"The adapter cannot be converted in {path.parent} ({error.strerror or error}): make room there, or set "
            "AGENTFLOW_CACHE_DIR to a folder that can be written."
        ) from error
    return path


def _write(path: Path, adapter: PeftAdapter, model: ModelHeader) -> None:
    try:
        import gguf
    except ImportError as error:
        raise SetupError('Adapters cannot be converted here: run `pip install "agentflow[local]"`.') from error
    tensors = _fitted(adapter, model)
    part = path.with_name("converting.part")  # under the lock there is one; a killed command's is overwritten
    try:
        writer = gguf.GGUFWriter(part, str(model.fields["general.architecture"]))
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, adapter.alpha)
        for name, pair in tensors.items():
            rest = pair.scale * pair.a.shape[0] / adapter.alpha
            writer.add_tensor(f"{name}.lora_a", pair.a)
            writer.add_tensor(f"{name}.lora_b", pair.b * pair.b.dtype.type(rest))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with part.open("rb") as file:
            os.fsync(file.fileno())  # or a crash of the machine may leave an empty file under the name
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _fitted(adapter: PeftAdapter, model: ModelHeader) -> "dict[str, LoraPair]":
    """Return the pairs by the model's own tensor names, their rows in its order.

    Raises:
        ConfigError: the model has no such matrix, or one of another shape.
    """
    import gguf

    architecture = model.fields.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise ConfigError(
            f"{model.path.name} is of the architecture {architecture}, but adapters are converted for "
            f"{', '.join(_ARCHITECTURES)} alone: serve the planner with vLLM."
        )
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], int(model.fields[f"{architecture}.block_count"]))
    fitted: dict[str, LoraPair] = {}
    for module, pair in adapter.pairs.items():
        name = f"{names.get_name(module)}.weight"
        ours, theirs = (pair.a.shape[1], pair.b.shape[0]), model.shapes.get(name)
        if theirs is None:
            raise _misfit(adapter, model, f"which has no {module} of its own")
        if ours != theirs:
            raise _misfit(adapter, model, f"whose {module} is {theirs} where the adapter's is {ours}")
        fitted[name] = _reordered(name, pair, model) if architecture == "llama" else pair
    return fitted


def _misfit(adapter: PeftAdapter, model: ModelHeader, why: str) -> ConfigError:
    return ConfigError(
        f"The adapter in {adapter.directory} does not fit {model.path.name}, {why}: set local.model to the model "
        "that it was trained from, or serve it with vLLM."
    )


def _reordered(name: str, pair: "LoraPair", model: ModelHeader) -> "LoraPair":
    """Return a query's or key's pair in the order of the `llama` architecture.

    There the two numbers that a rotary embedding turns together are neighbours; in Hugging Face's order they lie half a
    head apart.
    """
    fields = {"attn_q.weight": "head_count", "attn_k.weight": "head_count_kv"}
    field = next((field for end, field in fields.items() if name.endswith(end)), None)
    if field is None:
        return pair
    heads = model.fields.get(f"llama.attention.{field}", model.fields["llama.attention.head_count"])
    rows, rank = pair.b.shape
    halves: Matrix = pair.b.reshape(int(heads), 2, -1, rank)
    return replace(pair, b=halves.swapaxes(1, 2).reshape(rows, rank))


def _drop_unused(directory: Path) -> None:
    """Remove the adapters that were not used for longest. Engines hold none open: they read them once."""
    files = sorted(directory.glob("*.gguf"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_KEPT:]:
        file.unlink(missing_ok=True)
