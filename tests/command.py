"""Drives the real `agentflow` program, in a process of its own or in the tests', in a directory of its own."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentflow.main import app

REPOSITORY = Path(__file__).resolve().parents[1]
_SECONDS = 120
"""Generous: only a hang takes so long."""


class Workplace:
    """A directory with an agentflow.toml whose roles all ask one server, and whose one tool counts its calls."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.counts = directory / "counts.txt"
        self.write_config(url)

    def write_config(self, url: str, more: str = "") -> None:
        text = (
            f'[models.default]\nmodel = "test-model"\nbase_url = "{url}"\nmax_retries = 0\n'
            f'[tools]\nenabled = []\ncustom = ["tests.counting_tool:count_calls"]\n{more}'
        )
        (self.directory / "agentflow.toml").write_text(text, encoding="utf-8")

    def environment(self, **extra: str) -> dict[str, str]:
        """Nothing of the caller's but what a process needs."""
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
        own = {
            "HOME": str(self.directory),
            "PYTHONPATH": str(REPOSITORY),
            "AGENTFLOW_CACHE_DIR": str(self.directory / "cache"),
            "COUNTING_FILE": str(self.counts),
        }
        return kept | own | extra

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "agentflow", *arguments]

    def run(
        self, *arguments: str, stdin: bytes | None = b"", env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; `stdin=None` closes standard input."""
        command = self.command(*arguments)
        if stdin is None:
            command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            cwd=self.directory,
            env=self.environment(**(env or {})),
            timeout=_SECONDS,
            **options,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(command, done.returncode, out, err)

    def call(self, *arguments: str, status: int = 0) -> str:
        """Call a command in the tests' own process, which is quicker, and return what it printed on standard output.

        Fails unless the exit status is `status`; exceptions are raised.
        """
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            patch.chdir(self.directory)
            patch.syspath_prepend(self.directory)
            result = CliRunner().invoke(app, list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result.stdout

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command and let it go on. Signals reach it whatever the tests' own process ignores."""
        return subprocess.Popen(
            ["env", "--default-signal", *self.command(*arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.environment(),
            text=True,
        )

    def run_on_terminal(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Run a command on a terminal of 80 columns; returns the exit status and everything that was written to it."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.directory,
            env=self.environment(COLUMNS="80", LINES="40", **env),
        )
        os.close(theirs)
        written = b""
        deadline = time.monotonic() + _SECONDS
        try:
            while time.monotonic() < deadline:
                if not select.select([ours], [], [], 1.0)[0]:
                    continue
                try:
                    data = os.read(ours, 65536)
                except OSError:  # Linux reports a terminal whose last user is gone so
                    break
                if not data:
                    break
                written += data
            return process.wait(_SECONDS), written.decode()
        finally:
            process.kill()
            os.close(ours)


def events(output: str) -> list[dict[str, Any]]:
    """Parse `--json` output."""
    return [json.loads(line) for line in output.splitlines()]


def kinds(output: str) -> Sequence[str]:
    """Return the kinds of the events."""
    return [event["event"] for event in events(output)]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)
