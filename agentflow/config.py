"""`agentflow config`: the settings in force, and where each comes from."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from agentflow.console.text import clean
from agentflow.options import ConfigFile, Overrides, settings
from graph.secret_names import names_secret

if TYPE_CHECKING:
    from graph.config import LoadedConfig

app = typer.Typer(no_args_is_help=True, help="The settings in force.")

_SECRET_TABLE = re.compile(r"^tools\.mcp\..+?\.(?:env|headers)\.")
_PASSWORD_IN_URL = re.compile(r"(://[^/@\s:]*):[^/@\s]*@")
_NAMED = re.compile(r"(?P<start>(?:^|[?&\s])(?P<name>[\w-]+)=)[^&\"\s]+")
_HIDDEN = "(hidden)"


@app.command("show")
def show(context: typer.Context, config_file: ConfigFile = None, overrides: Overrides = None) -> None:
    """Print every setting with its source; keys and passwords are hidden."""
    for path, value, source in _settings(settings(context, config_file, overrides)):
        print(clean(_line(path, value, source)))


def _settings(loaded: "LoadedConfig") -> Iterator[tuple[str, Any, str]]:
    """Yield path, value and source; a role's model settings as they are in force, with what it takes from others."""
    from graph.config import ROLES, leaves

    for role in ROLES:
        for key, value in leaves(loaded.config.models.of(role)):
            paths = (f"models.{role}.{key}", f"models.default.{key}")
            source = next((f"{_of(loaded, path)}{_via(path, role)}" for path in paths if _of(loaded, path)), "default")
            yield paths[0], value, source
    for path, value in leaves(loaded.config):
        if not path.startswith("models."):
            yield path, value, _of(loaded, path) or "default"


def _of(loaded: "LoadedConfig", path: str) -> str | None:
    """Return the source of a value, which may have been set as a whole table or list."""
    found = [known for known in loaded.sources if path == known or path.startswith(f"{known}.")]
    return loaded.sources[max(found, key=len)] if found else None


def _via(path: str, role: str) -> str:
    return "" if path.startswith(f"models.{role}.") else " (models.default)"


def _line(path: str, value: Any, source: str) -> str:
    if value is None:
        return f"# {path} is not set"
    if value not in ("", [], {}) and (names_secret(path.rpartition(".")[2]) or _SECRET_TABLE.match(path)):
        value = _HIDDEN
    return f"{path} = {json.dumps(_shown(value), ensure_ascii=False)}  # {source}"


def _shown(value: Any) -> Any:
    """Hide passwords and keys in addresses, after flags that name one, and in tables within lists."""
    if isinstance(value, str):
        text = _PASSWORD_IN_URL.sub(rf"\1:{_HIDDEN}@", value)
        return _NAMED.sub(lambda m: f"{m['start']}{_HIDDEN}" if names_secret(m["name"]) else m[0], text)
    if isinstance(value, dict):
        return {name: _HIDDEN if names_secret(name) else _shown(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [
            _HIDDEN if _is_flag(before) else _shown(item) for before, item in zip([None, *value], value, strict=False)
        ]
    return value


def _is_flag(item: Any) -> bool:
    """Whether an argument names a key that comes in the next one, as `--api-key` and `-H` do."""
    if not isinstance(item, str) or not item.startswith("-") or "=" in item:
        return False
    return item in {"-H", "--header"} or names_secret(item)
