"""A vLLM server as a child process. vLLM lives in an environment of its own; it is spoken to over HTTP only."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx
import psutil

from graph.errors import ModelError
from graph.serve_settings import ServeSettings
from training import guard
from training.serve_checks import check_model, check_port, free_port
from training.vllm_command import check_flags, serve_command, serve_environment
from training.vllm_log import last_words, stage
from training.vllm_python import check_version, find_python

OnStage = Callable[[str], None]

_POLL_SECONDS = 0.25
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that stand for all of a machine's
_TAIL_BYTES = 200_000


class VLLMServer:
    """Runs while the `with` block does; it also ends when this process is killed.

    Raises `ConfigError` for an interpreter, model, flag or port that cannot be used, `ModelError` with vLLM's own words
    where the server does not start.
    """

    def __init__(self, model: str, settings: ServeSettings, *, log: Path) -> None:
        self.model = model
        """Directory of a model in Hugging Face format, or its name on the hub."""
        self.settings = settings
        self.log = log
        """File that vLLM's output is appended to."""
        self.port = settings.port or free_port(settings.host)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begins_at = 0

    @property
    def url(self) -> str:
        """Address of the server as this machine reaches it, where `/health` answers."""
        host = _LOCAL.get(self.settings.host, self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def base_url(self) -> str:
        """Address of its OpenAI interface, as a role's `base_url` and `load_adapter` want it."""
        return f"{self.url}/v1"

    def start(self, on_stage: OnStage | None = None) -> None:
        """Start the server and wait until it is healthy; `on_stage` is told what it does meanwhile."""
        settings = self.settings
        python = find_python(settings.python)
        check_flags(settings.flags)
        check_model(self.model)
        check_version(python)
        environment = serve_environment(self.model, settings)
        check_port(settings.host, self.port)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_begins_at = log.tell()
            self._process = self._launch(serve_command(python, self.model, settings, self.port), environment, log)
        try:
            self._wait_until_healthy(on_stage)
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Wait for the server's end, which nobody asked for.

        Raises:
            ModelError: it has ended; with vLLM's own words.
        """
        assert self._process is not None
        self._process.wait()
        raise ModelError(f"vLLM ended by itself: {last_words(self._said())} (log: {self.log}).")

    def stop(self) -> None:
        """End the server and everything it started. Does nothing where it does not run.

        Interrupted by an exception, such as a second Ctrl-C, it kills what is left.
        """
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # the guard stops the group
        try:
            process.wait(guard.GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            _kill(process)
        except BaseException:
            _kill(process)
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, command: list[str], environment: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", guard.__file__, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is this process's to handle
        )

    def _wait_until_healthy(self, on_stage: OnStage | None) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.settings.start_timeout
        with httpx.Client(timeout=5, trust_env=False) as client:
            while time.monotonic() < deadline:
                if self._process.poll() is not None:
                    raise ModelError(f"vLLM did not start: {last_words(self._said())} (log: {self.log}).")
                if on_stage is not None:
                    on_stage(stage(self._said()))
                try:
                    if client.get(f"{self.url}/health").is_success and self._listens():
                        return
                except httpx.TransportError:
                    pass  # not listening yet
                time.sleep(_POLL_SECONDS)
        seconds, said = self.settings.start_timeout, stage(self._said())
        raise ModelError(
            f"vLLM was not healthy after {seconds:.0f} s, it was {said}: raise serve.start_timeout, or look into its "
            f"log, {self.log}."
        )

    def _listens(self) -> bool:
        """Whether it is this server that answers: another may have taken the port while Python started."""
        assert self._process is not None
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                for connection in process.net_connections("tcp"):
                    if connection.status == psutil.CONN_LISTEN and connection.laddr.port == self.port:
                        return True
        return False

    def _said(self) -> str:
        """Return the end of this start's part of the log."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_begins_at, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return log.read().decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
