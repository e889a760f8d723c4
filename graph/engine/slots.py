"""Saved slots: the unchanging start of each role's prompt, read once and kept on disk.

Reading a prompt is the slow part on a CPU (a few hundred tokens take seconds); restoring a saved one takes
milliseconds. What is saved is noted in slots/manifest.json with the prompt's hash and the engine's version, and is
thrown away when either differs.
"""

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from graph.engine.client import EngineClient
from graph.engine.home import EngineHome
from graph.engine.info import ROLE_SLOTS
from graph.errors import ModelError

Messages = Sequence[Mapping[str, str]]
"""Chat messages, each with `role` and `content`."""

_MANIFEST = TypeAdapter(dict[str, str])


def warm(home: EngineHome, client: EngineClient, prompts: Mapping[str, Messages]) -> dict[str, int]:
    """Have the engine read and save each role's prompt unless it is saved already.

    Returns the tokens of each prompt that was read now. Raises ModelError.
    """
    read: dict[str, int] = {}
    manifest = _read_manifest(home)
    for role, messages in prompts.items():
        mark = _mark(messages)
        if manifest.get(role) == mark and _file(home, role).is_file():
            continue
        read[role] = client.prefill(messages, ROLE_SLOTS[role])
        # Saved beside and moved: a crash leaves the old file or the new one, never half of one.
        client.save_slot(ROLE_SLOTS[role], f"{role}.new")
        os.replace(home.slots / f"{role}.new", _file(home, role))
        manifest[role] = mark
        _write_manifest(home, manifest)
    return read


def restore(home: EngineHome, client: EngineClient) -> int:
    """Give a fresh engine every saved slot; returns how many it took. One that does not fit is removed."""
    manifest = _read_manifest(home)
    version = _version()
    for role, mark in list(manifest.items()):
        try:
            fits = role in ROLE_SLOTS and mark.startswith(f"{version}/")
            if fits:
                client.restore_slot(ROLE_SLOTS[role], _file(home, role).name)
        except ModelError:
            fits = False
        if not fits:
            _file(home, role).unlink(missing_ok=True)
            del manifest[role]
            _write_manifest(home, manifest)
    return len(manifest)


def _file(home: EngineHome, role: str) -> Path:
    return home.slots / f"{role}.bin"


def _mark(messages: Messages) -> str:
    text = json.dumps([dict(message) for message in messages], ensure_ascii=False, sort_keys=True)
    return f"{_version()}/{hashlib.sha256(text.encode()).hexdigest()}"


def _version() -> str:
    return importlib.metadata.version("xllamacpp")


def _read_manifest(home: EngineHome) -> dict[str, str]:
    try:
        return _MANIFEST.validate_json((home.slots / "manifest.json").read_bytes())
    except (OSError, ValidationError):
        return {}


def _write_manifest(home: EngineHome, manifest: dict[str, str]) -> None:
    path = home.slots / "manifest.new"
    path.write_bytes(_MANIFEST.dump_json(manifest))
    os.replace(path, home.slots / "manifest.json")
