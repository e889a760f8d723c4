"""The sandbox runs code as a normal script does."""

import asyncio
import textwrap

import pytest

from graph.sandbox import Level
from tests.sandbox_levels import EVERY, ONE, run

every = pytest.mark.parametrize("level", EVERY)
one = pytest.mark.parametrize("level", ONE)


@every
async def test_script_has_one_global_namespace(level: Level) -> None:
    code = """
    import math
    from collections import Counter

    limit = 5

    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    def area(r):
        return round(math.pi * r * r, 2)

    class Box:
        sizes = Counter("aab")

        def names(self):
            return [f"{key}{limit}" for key in self.sizes]

    print(factorial(limit), area(1), Box().names(), __name__, [limit for _ in range(2)])
    """
    result = await run(textwrap.dedent(code), level)
    assert result.stdout == "120 3.14 ['a5', 'b5'] __main__ [5, 5]\n"
    assert (result.stderr, result.value, result.exit_status, result.limit) == ("", None, 0, None)


@one
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("2**10", "1024"),
        ("x = 3\nx + 1  # a comment", "4"),
        ('"text"', "'text'"),
        ("None", None),
        ("x = 3", None),
        ("5;", None),
        ("é = 'é'; é ;", None),
        ("é = 'é'; é", "'é'"),
        ("print(1)", None),
        ("if True:\n    5", None),
        ("[\n    1,\n    2,\n]", "[1, 2]"),
        ("from __future__ import annotations\nlen('abc')", "3"),
        ("", None),
        ("len(str(2**20000))", "6021"),
        ("2**20000 % 10**9", str(2**20000 % 10**9)),
        ("'\\ud800'", "'\\ud800'"),
    ],
)
async def test_value_of_the_last_expression(level: Level, code: str, value: str | None) -> None:
    result = await run(code, level)
    assert (result.value, result.stderr, result.exit_status) == (value, "", 0)


@one
@pytest.mark.parametrize(
    ("code", "status", "stderr"),
    [
        ("exit()", 0, ""),
        ("quit()", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('a message')", 1, "a message\n"),
        ("import os; os._exit(7)", 7, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, ""),
    ],
)
async def test_exit_keeps_the_output_so_far(level: Level, code: str, status: int, stderr: str) -> None:
    result = await run(f"print('before', end='')\n{code}\nprint('after')", level)
    assert (result.stdout, result.stderr, result.exit_status) == ("before", stderr, status)


@every
async def test_input_is_at_its_end(level: Level) -> None:
    result = await run("input('name? ')", level)
    assert result.stdout == "name? "
    assert result.stderr.endswith("EOFError: EOF when reading a line\n")


@one
async def test_bytes_that_are_not_utf8_become_replacement_characters(level: Level) -> None:
    result = await run(
        "import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb'); sys.stderr.buffer.write(b'\\xc3');", level
    )
    assert (result.stdout, result.stderr) == ("a\ufffd\ufffdb", "\ufffd")


@one
async def test_warnings_stay_apart_from_output(level: Level) -> None:
    result = await run("import warnings\nwarnings.warn('careful', stacklevel=1)\nprint(1)", level)
    assert result.stdout == "1\n"
    assert "UserWarning: careful" in result.stderr
    assert result.exit_status == 0


@one
async def test_traceback_shows_the_code_and_nothing_else(level: Level) -> None:
    result = await run("import json\n\ndef load(text):\n    return json.loads(text)\n\nload('{')", level)
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.rpartition(", ")[0].partition("script.py")[2] for line in lines if "  File" in line] == [
        '", line 6',
        '", line 4',
    ]
    assert "    load('{')" in lines
    assert "    return json.loads(text)" in lines
    assert lines[-1].startswith("json.decoder.JSONDecodeError")
    assert result.exit_status == 1


@one
async def test_traceback_of_a_chain_is_filtered_throughout(level: Level) -> None:
    code = "import json\ntry:\n    json.loads('{')\nexcept ValueError as error:\n    raise KeyError('x') from error"
    result = await run(code, level)
    assert "The above exception was the direct cause" in result.stderr
    assert "decoder.py" not in result.stderr


@one
async def test_syntax_error_names_its_line(level: Level) -> None:
    result = await run("x = 1\nif x\n    print(x)", level)
    assert result.stderr.splitlines()[0].endswith('script.py", line 2')
    assert "    if x" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("SyntaxError")
    assert (result.stdout, result.exit_status) == ("", 1)


@one
async def test_zero_bytes_in_output_are_replaced(level: Level) -> None:
    result = await run("print('a\\0b')\n'a\\0b'", level)
    assert (result.stdout, result.value) == ("a\ufffdb\n", "'a\\x00b'")


@one
async def test_zero_bytes_in_code_are_an_error_of_the_code(level: Level) -> None:
    result = await run("print(1)\0", level)
    assert result.exit_status == 1
    assert "null bytes" in result.stderr


@every
async def test_side_effect_happens_once(level: Level) -> None:
    code = (
        "from pathlib import Path\nwith open('log.txt', 'a') as file:\n    file.write('x')\nPath('log.txt').read_text()"
    )
    assert [(await run(code, level)).value for _ in range(2)] == ["'x'", "'x'"]


@every
async def test_two_runs_do_not_mix(level: Level) -> None:
    codes = [f"for _ in range(500): print({digit} * 10)" for digit in ("'a'", "'b'")]
    first, second = await asyncio.gather(*(run(code, level) for code in codes))
    assert set(first.stdout) == {"a", "\n"}
    assert set(second.stdout) == {"b", "\n"}


@every
async def test_numpy_and_sympy_are_at_hand(level: Level) -> None:
    code = (
        "import numpy, sympy\nx = sympy.symbols('x')\n(float(numpy.linalg.det(2 * numpy.eye(2))), sympy.solve(x**2-4))"
    )
    result = await run(code, level)
    assert (result.value, result.stderr) == ("(4.0, [-2, 2])", "")


@every
async def test_threads_subprocesses_and_own_modules_work(level: Level) -> None:
    code = """
    import subprocess, sys, threading
    from pathlib import Path

    Path("helper.py").write_text("answer = 42")
    import helper

    thread = threading.Thread(target=lambda: print("thread"))
    thread.start()
    thread.join()
    print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout.strip())
    helper.answer
    """
    result = await run(textwrap.dedent(code), level)
    assert (result.stdout, result.value, result.stderr) == ("thread\n42\n", "42", "")


@every
async def test_figures_are_kept_once_each(level: Level) -> None:
    pytest.importorskip("matplotlib")
    code = """
    import matplotlib.pyplot as plt

    plt.plot([1, 2])
    plt.show()
    plt.figure()
    plt.savefig("mine.png")
    plt.figure()
    plt.plot([3])
    """
    result = await run(textwrap.dedent(code), level)
    assert result.stderr == ""
    assert len(result.figures) == 3
    assert all(figure.startswith(b"\x89PNG") for figure in result.figures)


@one
async def test_figures_of_a_failed_run_are_kept(level: Level) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(10)
    result = await run(f"open('a.png', 'wb').write({png!r})\nopen('b.png', 'wb').write(b'no')\n1 / 0", level)
    assert result.figures == (png,)
    assert result.exit_status == 1
