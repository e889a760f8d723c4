"""Has an embedded engine answer with a policy."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from graph.engine import AdapterFile, EngineInfo, LocalSettings, ensure_engine
from graph.engine.model_file import ModelFile, model_file
from graph.engine.model_header import ModelHeader
from graph.errors import ConfigError
from graph.policies.gguf_lora import AdapterFiles, convert_adapter, converted_path
from graph.policies.policy import Policy


async def policy_engine(
    settings: LocalSettings, policy: Policy, directory: Path, *, on_progress: Callable[[str], None] | None = None
) -> EngineInfo:
    """Return an engine of the policy's own, with its adapter applied, started unless it runs and is well.

    Cheap where it runs, so that it can be asked before every call.

    Args:
        settings: of the embedded model that the policy belongs to.
        policy: an adapter of it.
        directory: the policy's.
        on_progress: called with a sentence, from another thread, when something takes its time.

    Raises:
        ConfigError: the policy is none of this model, is damaged, or does what the engine cannot apply.
        SetupError: the model or the `local` extra is missing, or the cache directory cannot be used.
    """
    if policy.kind == "weights":
        raise ConfigError(
            f"{policy.full_name} holds full weights, which the embedded engine does not read: serve them with vLLM, or "
            "convert them to GGUF and set local.model to that file."
        )
    return await asyncio.to_thread(_engine, settings, policy, directory, on_progress or (lambda _message: None))


def _engine(settings: LocalSettings, policy: Policy, directory: Path, on_progress: Callable[[str], None]) -> EngineInfo:
    model = model_file(settings)
    files = AdapterFiles(directory, policy.files)
    path = converted_path(files, model)
    try:
        os.utime(path)  # what is in use stays in the cache
    except FileNotFoundError:
        _check_base(policy, model)
        on_progress(f"Converting {policy.full_name} for the embedded model")
        convert_adapter(files, model)
    adapter = AdapterFile(path, policy.full_name, path.stem, path.stat().st_size)
    return ensure_engine(settings, adapter=adapter, on_progress=on_progress)


def _check_base(policy: Policy, model: ModelFile) -> None:
    """Refuse the adapter of a model of another name: sizes alone do not tell a coder from its plain sibling.

    As in `fit`, the last part of the base model's name decides; what the GGUF file is called counts as much as what it
    says of itself.
    """
    base = Path(policy.base_model).name
    named = str(ModelHeader.read(model.path).fields.get("general.name", model.name))
    if not is_named(named, base) and not is_named(model.name, base):
        raise ConfigError(
            f"{policy.full_name} was trained from {policy.base_model}, but the embedded model is {named}: set "
            "local.model to a GGUF file of that model, or serve the planner with vLLM."
        )


_FORMATS = r"(gguf|awq|gptq|imatrix|[it]?q\d(0|1|k[sml]?|kxl|nl|x?xs|s|m)?|b?f16|fp16|f32)*"
"""What converters put behind the name of a model."""


def is_named(name: str, base: str) -> bool:
    """Whether `name` is that of a conversion of the model `base`; spelling and format do not count."""
    return re.fullmatch(re.escape(_letters(base)) + _FORMATS, _letters(name)) is not None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
