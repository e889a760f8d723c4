"""The Python that runs inside the sandbox: this one's program and libraries, and nothing else of this machine."""

import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from graph.sandbox import child

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")


@dataclass(frozen=True)
class Interpreter:
    """Where the interpreter is and which paths it must be able to read."""

    program: str
    """The real file, outside any virtual environment."""
    site: tuple[str, ...]
    """Directories of installed packages, numpy's and sympy's among them."""
    readable: tuple[str, ...]
    """Existing paths, none of which lies inside another."""
    package: str
    """Directory that holds the package `child`."""


@cache
def current_interpreter() -> Interpreter:
    """Describe the interpreter of this process."""
    program = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    site = tuple(path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    own = str(Path(child.__file__).resolve().parent)
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    standard = [sysconfig.get_path(name, vars=base) for name in ("stdlib", "platstdlib")]
    shared = [os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")]
    wanted = [path for path in (program, own, *standard, *shared, *site, *_LIBRARIES) if os.path.exists(path)]
    paths = {*wanted, *map(os.path.realpath, wanted)}  # a prefix may be reached through a link
    outermost = [path for path in paths if not any(str(parent) in paths for parent in Path(path).parents)]
    return Interpreter(
        program=program,
        site=site,
        readable=tuple(sorted(outermost)),
        package=str(Path(own).parent),
    )
