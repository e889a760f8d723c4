"""The `agentflow` command: puts the commands together and turns every error into one sentence."""

import errno
import gc
import importlib
import io
import os
import signal
import sys
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from agentflow import ask, config, corpus, doctor, engine, feedback, policies, runs, serve, setup
from agentflow.console.terminal import complain, lose_output
from agentflow.options import ConfigFile, Overrides
from agentflow.traces import app as traces
from graph.errors import AgentFlowError, ConfigError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

app = typer.Typer(
    name="agentflow",
    help="An agent that plans, uses tools, verifies and answers.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.ask)
app.add_typer(runs.app, name="runs")
app.command("feedback")(feedback.feedback)
app.add_typer(traces.app, name="traces")
app.command("setup")(setup.setup)
app.add_typer(engine.app, name="engine")
app.add_typer(corpus.app, name="corpus")
app.add_typer(config.app, name="config")
app.command("serve")(serve.serve)
app.add_typer(policies.app, name="policies")
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"agentflow {version('agentflow')}")
        raise typer.Exit


@app.callback()
def main(
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.", envvar="AGENTFLOW_DEBUG")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that come before the command; commands read them from the context."""


def run() -> None:
    """Run the command line: the console script."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    debug = "--debug" in sys.argv or os.environ.get("AGENTFLOW_DEBUG", "") not in {"", "0"}
    if not debug:
        sys.excepthook = _report_bug
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
    try:
        _load_env(Path(".env"))
        try:
            typer.main.get_command(app)(prog_name="agentflow")
        finally:
            _flush()
    except AgentFlowError as error:
        if debug:
            traceback.print_exception(error)
        complain("\n".join([str(error), *getattr(error, "__notes__", ())]))
        sys.exit(2)
    except OSError as error:
        lose_output()
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        if error.errno not in _FULL:
            raise
        complain(f"{error.strerror}: make room, and run the command again.")
        sys.exit(2)
    finally:
        gc.freeze()  # taking every loaded module apart, object by object, would take Python's end a second


def _prepare_streams() -> None:
    """Never fail for a stream that is closed, or a character that the terminal's encoding lacks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the life of the process
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _load_env(file: Path) -> None:
    if not file.is_file():
        return
    dotenv = importlib.import_module("dotenv")  # only users with such a file pay for it
    try:
        dotenv.load_dotenv(file, override=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f".env cannot be read ({error}): mend or remove it.") from error


def _flush() -> None:
    """Write what is still to be printed while an error can still be told; at its end Python would print a traceback."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say that something unforeseen happened, without the traceback that `--debug` shows."""
    if issubclass(kind, KeyboardInterrupt):
        return
    last = traceback.extract_tb(trace)[-1] if trace else None
    where = f" in {Path(last.filename).name}, line {last.lineno}" if last else ""
    first = (str(error).splitlines() or [""])[0]
    complain(f"This is a bug in agentflow ({kind.__name__}{where}: {first}): run it again with --debug and report it.")
