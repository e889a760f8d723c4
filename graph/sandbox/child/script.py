"""Running the user's code as a normal script that also tells the value of its last expression, as a notebook would."""

import ast
import builtins
import io
import os
import sys
from types import CodeType, ModuleType, TracebackType

from .figures import collect_at_exit, save_open_figures
from .report import VALUE, report
from .setup import Setup

FILE = "script.py"
"""The code's file in the private directory: tracebacks, `inspect` and `multiprocessing` find it there."""
_VALUE = "__value__"
VALUE_CHARACTERS = 100_000
_HERE = os.path.dirname(__file__)


class _Unbuffered(io.BufferedWriter):
    """A writer that holds nothing back: what was printed before a kill has been seen."""

    def write(self, data: object) -> int:
        """Write all of `data` at once."""
        count = super().write(data)  # type: ignore[arg-type]  # any buffer, as in the base class
        self.flush()
        return count


def receive_code() -> bytes | None:
    """Read the code that the launcher sends once the sandbox stands; None if it died before that."""
    header = _read_exactly(8)
    return None if header is None else _read_exactly(int.from_bytes(header, "big"))


def _read_exactly(count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def run_script(code: bytes, setup: Setup) -> None:
    """Run the code and report its value.

    What it raises goes through the interpreter's own ending (exit status, threads, atexit), which a normal script gets.
    """
    path = os.path.join(setup.home, FILE)
    with open(path, "wb") as file:
        file.write(code)
    _become_script(path, setup)
    main = sys.modules["__main__"]
    compiled = _compile(code, path)
    try:
        exec(compiled, vars(main))  # noqa: S102 - this is what the sandbox is for
    finally:
        save_open_figures(setup)
    value = vars(main).pop(_VALUE, None)
    if value is not None:
        text = repr(value)[: VALUE_CHARACTERS + 1]
        report(setup.results, VALUE, text.encode("utf-8", "backslashreplace"))


def _become_script(path: str, setup: Setup) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(setup.results, False)
    os.chdir(setup.home)
    sys.stdout = _stream(1)
    sys.stderr = _stream(2)
    sys.argv = [path]
    sys.path[:] = [setup.home, *sys.path[1:], *setup.site, os.path.join(_HERE, "backend")]
    sys.excepthook = lambda _, error, trace: _show(error, trace, path)
    sys.set_int_max_str_digits(0)  # time is limited anyway, and long numbers are a usual result here
    _add_site_builtins()
    for name in [name for name in sys.modules if name == "child" or name.startswith("child.")]:
        del sys.modules[name]
    main = ModuleType("__main__")
    vars(main).update({"__builtins__": builtins, "__file__": path, "__annotations__": {}})
    sys.modules["__main__"] = main
    collect_at_exit(setup)


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = _Unbuffered(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def _add_site_builtins() -> None:
    """Provide exit, quit and help, which `site` would."""
    import _sitebuiltins  # private, but the only place of the real ones

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    vars(builtins)["help"] = _sitebuiltins._Helper()


def _compile(code: bytes, path: str) -> CodeType:
    tree = ast.parse(code, path)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and not _is_silenced(code, last):
        target = ast.Name(_VALUE, ast.Store())
        assignment = ast.copy_location(ast.Assign([target], last.value), last)
        tree.body[-1] = ast.fix_missing_locations(assignment)
    return compile(tree, path, "exec", dont_inherit=True)


def _is_silenced(code: bytes, last: ast.Expr) -> bool:
    """Tell whether a semicolon follows, which suppresses the value in a notebook."""
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    lines = code.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return lines[last.end_lineno - 1][last.end_col_offset :].lstrip().startswith(b";")


def _show(error: BaseException, trace: TracebackType | None, path: str) -> None:
    """Print an exception with the frames of the user's code only; a library's own are noise to its caller."""
    import traceback  # late: most runs raise nothing

    described = traceback.TracebackException(type(error), error, trace, compact=True)
    pending: list[traceback.TracebackException | None] = [described]
    while pending:
        part = pending.pop()
        if part is None:
            continue
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if frame.filename == path])
        pending += [part.__cause__, part.__context__, *(part.exceptions or ())]
    text = "".join(described.format())
    if not described.stack:  # a syntax error has no frames: no heading for them either
        text = text.removeprefix("Traceback (most recent call last):\n")
    sys.stderr.write(text)
