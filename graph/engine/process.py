"""The engine's own process: `python -m graph.engine.process REQUEST`.

It forks at once, so that the command that starts it has no child to wait for, prints the pid of the half that stays,
serves until told to stop or idle, and alone imports xllamacpp. It has a session of its own: neither the terminal's
Ctrl-C nor its end reaches it.
"""

import os
import re
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import filelock
from pydantic import BaseModel, ConfigDict

from graph.engine.client import EngineClient
from graph.engine.home import EngineHome, EngineState
from graph.engine.info import slot_count
from graph.engine.machine import birth_mark
from graph.engine.model_file import PROMPT_CACHE_MB
from graph.engine.slots import restore

_BATCH = 64
"""Prompt tokens read between two looks at the queue: reading is no slower than in larger batches, and a cancelled
request lets go after about a second."""
_HTTP_THREADS = 256
"""Waiting requests hold one each; some must be left for the health check."""
_POLL_SECONDS = 2.0
_SHUTDOWN_SECONDS = 1.0
_COUNTER = re.compile(r"^llamacpp:(\w+) (\S+)$", re.MULTILINE)


class EngineRequest(BaseModel):
    """What the starting command asks for, as JSON in the one argument."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path
    """The engine's home."""
    model_path: Path
    model: str
    base: str | None
    adapter_path: Path | None
    threads: int
    context_per_slot: int
    idle_seconds: float


def main() -> None:
    """Fork, report the pid, serve."""
    request = EngineRequest.model_validate_json(sys.argv[1])
    pid = os.fork()
    if pid:
        os.write(1, f"{pid}\n".encode())
        os._exit(0)
    home = EngineHome(request.directory)
    alive = home.alive_lock()
    try:
        alive.acquire(timeout=1.0)
    except filelock.Timeout:
        os._exit(0)  # another engine was quicker; the command finds that one
    _redirect_output(home)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _serve(request, home, stop)
    finally:
        home.clear_state(os.getpid())


def _redirect_output(home: EngineHome) -> None:
    """Let go of the starting command's pipe, and begin a new log."""
    log = os.open(home.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _serve(request: EngineRequest, home: EngineHome, stop: threading.Event) -> None:
    state = EngineState(
        phase="starting",
        pid=os.getpid(),
        birth=birth_mark(os.getpid()) or "",
        started=time.time(),
        port=0,
        api_key=secrets.token_urlsafe(32),
        **request.model_dump(exclude={"directory", "model_path", "adapter_path"}),
    )
    home.write_state(state)
    import xllamacpp  # only here: loading it in a command would cost every command its start

    server = xllamacpp.Server(_parameters(xllamacpp.CommonParams(), request, home, state.api_key))
    state = state.model_copy(update={"port": urlsplit(server.listening_address).port})
    restored = restore(home, EngineClient(state))
    home.write_state(state.model_copy(update={"phase": "ready"}))
    sys.stdout.write(f"ready on port {state.port} with {restored} restored slots\n")
    sys.stdout.flush()
    _watch(server, home, stop)
    home.clear_state(os.getpid())
    # The server's destructor waits for requests under way, whose answers nobody wants any more, and keeps every Python
    # thread waiting: only the kernel can end that.
    signal.setitimer(signal.ITIMER_REAL, _SHUTDOWN_SECONDS)
    del server


def _parameters(parameters: Any, request: EngineRequest, home: EngineHome, api_key: str) -> Any:
    """llama.cpp's parameters for `request`."""
    slots = slot_count(with_adapter=request.base is not None)
    parameters.model.path = str(request.model_path)
    if request.adapter_path:
        from xllamacpp import CommonAdapterLoraInfo  # loaded by now

        parameters.lora_adapters = [CommonAdapterLoraInfo(str(request.adapter_path), 1.0)]
    parameters.model_alias = {request.model}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0  # the kernel chooses a free one
    parameters.api_keys = [api_key]
    parameters.cors_origins = ""
    parameters.ui = False
    parameters.n_parallel = slots
    parameters.n_ctx = slots * request.context_per_slot
    parameters.fit_params = False  # a context that does not fit is an error, not silently smaller
    parameters.n_gpu_layers = 0
    parameters.n_batch = parameters.n_ubatch = _BATCH
    for cores in (parameters.cpuparams, parameters.cpuparams_batch):
        cores.n_threads = request.threads
        cores.poll = 0  # waiting threads that spin take the core that another thread needs
    parameters.n_threads_http = _HTTP_THREADS
    parameters.cache_ram_mib = PROMPT_CACHE_MB
    parameters.slot_save_path = f"{home.slots}{os.sep}"
    parameters.endpoint_slots = True
    parameters.endpoint_metrics = True
    parameters.warmup = False  # the first request warms the weights as well
    parameters.verbosity = 2  # warnings and errors: a log of every request would grow without bound
    return parameters


def _watch(server: Any, home: EngineHome, stop: threading.Event) -> None:
    """Return when told to stop, when idle for long enough, or when the state that leads here is gone."""
    seen: object = None
    last = time.monotonic()
    pause = _POLL_SECONDS
    while not stop.wait(pause):
        state = home.read_state()
        if state is None or state.pid != os.getpid():
            return  # the folder was removed or taken over: nobody can find this engine any more
        pause = min(_POLL_SECONDS, state.idle_seconds / 4)
        touched = home.touched()
        counters = dict(_COUNTER.findall(server.handle_metrics()))
        busy = float(counters["requests_processing"]) + float(counters["requests_deferred"])
        activity = (touched, counters["prompt_tokens_total"], counters["tokens_predicted_total"])
        if busy or seen != activity:
            seen, last = activity, time.monotonic()
        elif time.monotonic() - last >= state.idle_seconds and _give_up(home, touched):
            return


def _give_up(home: EngineHome, touched: int | None) -> bool:
    """Take the state away unless somebody is about to use this engine."""
    lock = home.start_lock()
    try:
        with lock.acquire(blocking=False):
            if home.touched() != touched:
                return False
            home.clear_state(os.getpid())
            return True
    except filelock.Timeout:
        return False


if __name__ == "__main__":
    main()
