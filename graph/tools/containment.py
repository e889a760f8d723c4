"""Keeps whatever a user's tool does within its call: ending the process, hanging in a thread, or both."""

import asyncio
import signal
import threading
from contextvars import copy_context
from functools import partial, wraps
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, Tool

from graph.daemon_threads import DaemonThreads


class EscapedError(Exception):
    """Carries what a tool raised that no task or thread may end with, up to the node that called it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        """SystemExit, KeyboardInterrupt or another exception that asyncio gives a meaning of its own."""


def contain(tool: BaseTool) -> None:
    """Make an asynchronous tool's attempt to end the process an EscapedError.

    LangChain runs `_arun` in a task of its own, and a task that ends with SystemExit ends the event loop: no caller can
    catch it. So it is caught inside, by a method that takes the place of this one object's.
    """
    if "_arun" in vars(tool):
        return
    original = tool._arun

    @wraps(original)
    async def arun(*args: Any, **kwargs: Any) -> Any:
        task = asyncio.current_task()
        try:
            return await original(*args, **kwargs)
        except GeneratorExit as error:
            if not _goes_on(task):
                raise  # nobody awaits it any more: Python is closing it
            raise EscapedError(error) from error
        except (SystemExit, KeyboardInterrupt) as error:
            if is_the_users(error):
                raise
            raise EscapedError(error) from error

    object.__setattr__(tool, "_arun", arun)  # pydantic refuses what is no field


def _goes_on(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # the loop has ended
        return False


def is_the_users(error: BaseException) -> bool:
    """Whether this may be a Ctrl-C, rather than an exception that a tool raised.

    Python raises KeyboardInterrupt in the main thread, and only where nobody has replaced its handler, as asyncio and
    the command line do: they cancel the run.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


async def invoke(tool: BaseTool, request: dict[str, Any]) -> Any:
    """Call a tool; a synchronous one in a thread that neither the run nor the process waits for.

    Raises:
        EscapedError: the tool raised what would have ended the process.
    """
    if not _is_synchronous(tool):
        return await tool.ainvoke(request)
    call = partial(copy_context().run, _held, tool, request)
    return await asyncio.get_running_loop().run_in_executor(DaemonThreads(), call)


def _held(tool: BaseTool, request: dict[str, Any]) -> Any:
    try:
        return tool.invoke(request)
    except StopIteration as error:  # no future takes it
        raise EscapedError(error) from error
    except Exception:
        raise
    except BaseException as error:
        raise EscapedError(error) from error


def _is_synchronous(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is None and type(tool)._arun in {StructuredTool._arun, Tool._arun}
    return type(tool)._arun is BaseTool._arun
