import asyncio
import base64
import os
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from graph.errors import ToolError
from graph.tools.python import PythonArgs, build, strip_fence
from graph.tools.settings import PythonSettings
from tests.sandbox_levels import ISOLATED, processes_of

needs_sandbox = pytest.mark.skipif(
    all(level.marks[0].args[0] for level in ISOLATED), reason="no isolation works on this machine"
)


async def _call(code: str, **settings: Any) -> ToolMessage:
    call = {"type": "tool_call", "name": "python", "id": "1", "args": {"code": code}}
    message = await build(PythonSettings(**settings)).ainvoke(call)
    assert isinstance(message, ToolMessage)
    return message


def test_card_states_the_true_limits() -> None:
    card = build(PythonSettings(timeout=7, memory_mb=512)).card
    assert "7 s" in card.limits
    assert "512 MB" in card.limits
    assert 7 < card.timeout <= 15
    assert card.code_argument == "code"
    assert not card.cacheable


@needs_sandbox
async def test_examples_of_the_card_work() -> None:
    examples = build(PythonSettings()).card.examples
    outputs = [(await _call(PythonArgs.model_validate(example.arguments).code)).text for example in examples]
    assert outputs == [
        "stdout:\n115",
        "stdout:\n839",
        "stdout:\nlake blue deep\nruobrah",
        "stdout:\n40.82",
        "value of the last expression: [2, 3]",
    ]


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('a')\n6 * 7", "stdout:\na\nvalue of the last expression: 42"),
        ("x = 1", "The code ran and printed nothing: print what you need, or end with an expression."),
        ("print('so far')\nexit(3)", "stdout:\nso far\nexit status 3"),
        ("import os; os.abort()", "exit status 134 (as for signal SIGABRT)"),
        ("```python\nprint(1)\n```", "stdout:\n1"),
    ],
)
async def test_text_has_the_parts_that_say_something(code: str, text: str) -> None:
    assert (await _call(code)).text == text


@needs_sandbox
async def test_error_comes_with_the_line_and_is_marked() -> None:
    message = await _call("x = 1\ny = x / 0\n")
    assert message.text.startswith("stderr:\nTraceback")
    assert "line 2" in message.text
    assert message.text.endswith("ZeroDivisionError: division by zero\nexit status 1")
    assert message.artifact["failed"]
    assert not message.artifact["timed_out"]


@needs_sandbox
async def test_timeout_names_the_true_limit_and_keeps_the_output() -> None:
    message = await _call("print('started')\nwhile True: pass", timeout=1.5)
    assert message.text.startswith("stdout:\nstarted\nStopped at the time limit of 1.5 s")
    assert message.artifact["timed_out"]
    assert message.artifact["failed"]


@needs_sandbox
async def test_processor_time_counts_as_time() -> None:
    code = "import os\nfor _ in range(2): os.fork()\nwhile True: pass"
    assert "time limit of 1 s" in (await _call(code, timeout=1)).text


@needs_sandbox
async def test_memory_limit_is_named() -> None:
    code = "import os, time\nfor _ in range(2): os.fork()\nblock = bytearray(60 << 20)\ntime.sleep(50)"
    assert "memory limit of 128 MB" in (await _call(code, memory_mb=128, timeout=30)).text


@needs_sandbox
async def test_long_parts_are_shortened() -> None:
    message = await _call(
        "print('x' * 500_000)\nimport sys\nfor n in range(1000): print(n, file=sys.stderr)\n'y' * 30_000"
    )
    assert len(message.text) < 20_000
    assert "characters left out" in message.text
    assert "999" in message.text
    assert "\n500\n" not in message.text
    assert message.artifact["stdout_truncated"]
    assert len(message.artifact["stdout"]) < 51_000


@needs_sandbox
async def test_artifact_has_everything_as_plain_json() -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(9)
    code = f"import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('a.png', 'wb').write({png!r}) and 'value'"
    message = await _call(code)
    artifact = message.artifact
    assert "figures saved for the user: 1" in message.text
    assert base64.b64decode(artifact["figures"][0]) == png
    assert (artifact["stdout"], artifact["stderr"], artifact["value"]) == ("out\n", "err\n", "'value'")
    assert (artifact["exit_status"], artifact["limit"], artifact["failed"]) == (0, None, False)
    assert artifact["sandbox"] in ("bubblewrap", "namespaces")


@pytest.mark.parametrize("code", ["", "  \n", "```python\n\n```"])
async def test_empty_code_is_an_error_that_says_so(code: str) -> None:
    with pytest.raises(ToolError, match="empty"):
        await _call(code)


@needs_sandbox
async def test_tool_is_available_where_a_sandbox_works() -> None:
    assert await build(PythonSettings()).unavailable() is None


@needs_sandbox
async def test_cancellation_by_the_caller_leaves_no_process() -> None:
    tool = build(PythonSettings(timeout=100))
    await tool.unavailable()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await tool.ainvoke({"code": "import os, time\nos.fork()\ntime.sleep(90)"})
    assert processes_of(os.getpid()) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\nprint(1)\n```\n", "print(1)"),
        ("\n  ```py\nprint(1)\nprint(2)\n  ```", "print(1)\nprint(2)"),
        ("~~~python\nprint(1)\n~~~", "print(1)"),
        ("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''"),
        ("```python\nx = '''\n```\ninside\n```\n'''\nprint(x)\n```", "x = '''\n```\ninside\n```\n'''\nprint(x)"),
        ("```python\r\nprint(1)\r\n```", "print(1)"),
    ],
)
def test_fence_around_the_whole_is_taken_off(given: str, code: str) -> None:
    assert strip_fence(given) == code


@pytest.mark.parametrize(
    "code",
    [
        "print(1)",
        "x = '''\n```python\nprint(1)\n```\n'''\nprint(x)",
        "x = '```'",
        "print('```python\\nprint(1)\\n```')",
        "'''\n```\n'''",
        "```python\nprint(1)",
    ],
)
def test_fences_within_are_left_alone(code: str) -> None:
    assert strip_fence(code) == code
