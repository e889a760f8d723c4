"""The `agentflow` command: puts the commands together and turns every error into one sentence."""

import importlib
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

from agentflow import ask, config, corpus, doctor, engine, runs, setup
from agentflow.console.terminal import complain, lose_output
from agentflow.options import ConfigFile, Overrides
from graph.errors import AgentFlowError, ConfigError

app = typer.Typer(
    name="agentflow",
    help="An agent that plans, uses tools, verifies and answers.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask.ask)
app.add_typer(runs.app, name="runs")
app.command("setup")(setup.setup)
app.add_typer(engine.app, name="engine")
app.add_typer(corpus.app, name="corpus")
app.add_typer(config.app, name="config")
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
    sys.path.append(os.getcwd())  # a user's own tools lie where the configuration does; last, so that they hide nothing
    debug = "--debug" in sys.argv or os.environ.get("AGENTFLOW_DEBUG", "") not in {"", "0"}
    if not debug:
        sys.excepthook = _report_bug
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
    try:
        _load_env(Path(".env"))
        typer.main.get_command(app)(prog_name="agentflow")
    except AgentFlowError as error:
        if debug:
            traceback.print_exception(error)
        complain("\n".join([str(error), *getattr(error, "__notes__", ())]))
        sys.exit(2)
    except BrokenPipeError:
        lose_output()
        sys.exit(128 + signal.SIGPIPE)
    finally:
        _flush()


def _prepare_streams() -> None:
    """Never fail for a character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
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
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        lose_output()


def _report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say that something unforeseen happened, without the traceback that `--debug` shows."""
    if issubclass(kind, KeyboardInterrupt):
        return
    last = traceback.extract_tb(trace)[-1] if trace else None
    where = f" in {Path(last.filename).name}, line {last.lineno}" if last else ""
    first = (str(error).splitlines() or [""])[0]
    complain(f"This is a bug in agentflow ({kind.__name__}{where}: {first}): run it again with --debug and report it.")
