"""What promoting adapters costs under load: seconds for a swap, and how long calls take with and without swaps.

    python -m benchmarks.hot_load [--versions 20] [--rounds 10] [--every 3] [--pause 3]

Serves a tiny model on vLLM (make vllm-cpu) and keeps 32 streams of planner calls with a shared prefix of 400 tokens
going, through the client that the flow uses; each pauses between its calls, as a run does while tools work. Phases with
and without swaps take turns, and are equally long. A swap lasts from the wish to promote a version until every process
uses it: its files are checked, the server loads it, the registry switches. What was promoted before is unloaded later.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from graph.models.factory import open_models
from graph.policies.promotion import promote, unload
from graph.policies.registry import PolicyRegistry
from graph.policies.vllm_control import VLLMControl
from graph.records import ModelCall
from graph.serve_settings import ServeSettings
from tests.planner_streams import Streams, streams_config
from tests.random_adapter import random_adapter
from tests.tiny_planner import build_tiny_planner, world
from training.serve import VLLMServer

GRACE = 1.0


async def measure(
    server: VLLMServer, registry: PolicyRegistry, rounds: Sequence[Sequence[str]], *, every: float, pause: float
) -> tuple[list[ModelCall], list[ModelCall], list[float]]:
    """Return the calls that began without swaps and with them, and the seconds of each swap."""
    swaps: list[float] = []
    spans: list[tuple[float, float]] = []
    with world() as others:
        flow = streams_config(others.url, server.base_url, registry.directory)
        async with open_models(flow) as models, Streams(models.by_role["planner"], pause=pause) as streams:
            await streams.answered_by("planner")
            await asyncio.sleep(3)  # the server warms up
            begun = time.time()
            for names in rounds:
                start = time.time()
                for name in names:
                    next_at = time.monotonic() + every
                    swaps.append(await asyncio.to_thread(swap, registry, name, server.base_url))
                    await asyncio.sleep(max(0.0, next_at - time.monotonic()))
                spans.append((start, time.time()))
                await asyncio.sleep(spans[-1][1] - start)
    Console().print(f"{streams.repeated} of {len(streams.calls)} calls were made again, as the flow does")
    calls = [call for call in streams.calls if call.at >= begun]
    swapping = [any(start <= call.at < end for start, end in spans) for call in calls]
    plain = [call for call, swapped in zip(calls, swapping, strict=True) if not swapped]
    return plain, [call for call, swapped in zip(calls, swapping, strict=True) if swapped], swaps


def swap(registry: PolicyRegistry, name: str, base_url: str) -> float:
    """Promote a version as another process would, and return the seconds until all processes use it."""

    async def run() -> float:
        async with httpx.AsyncClient() as http:
            server = VLLMControl(base_url, http)
            start = time.monotonic()
            promoted = await promote(registry, name, server=server, keep_old=True)
            took = time.monotonic() - start
            await asyncio.sleep(GRACE)
            if promoted.before:
                await unload(promoted.before, server)
            return took

    return asyncio.run(run())


def table(plain: Sequence[ModelCall], swapping: Sequence[ModelCall]) -> Table:
    """Return how long calls took, in milliseconds."""
    found = Table(
        "ms until", "quantile", f"without swaps ({len(plain)} calls)", f"with ({len(swapping)})", "more", "ratio"
    )
    for what in ("first_token_seconds", "seconds"):
        for quantile in (50, 99):
            without, with_ = (
                1000 * float(np.percentile([getattr(call, what) or call.seconds for call in calls], quantile))
                for calls in (plain, swapping)
            )
            name = "the first token" if what == "first_token_seconds" else "the end"
            row = (f"{without:.0f}", f"{with_:.0f}", f"{with_ - without:+.0f}", f"{with_ / without:.2f}")
            found.add_row(name, f"p{quantile}", *row)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--every", type=float, default=3.0, help="seconds from one swap to the next")
    parser.add_argument("--pause", type=float, default=3.0, help="mean seconds between two calls of a stream")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)  # PEFT uses names that transformers has deprecated
    python = Path(__file__).resolve().parents[1] / ".venv-vllm" / "bin" / "python"
    settings = ServeSettings(python=python, dtype="float32", max_model_len=4096, enforce_eager=True)
    with tempfile.TemporaryDirectory() as directory:
        model = build_tiny_planner(Path(directory) / "model")
        registry = PolicyRegistry(Path(directory) / "policies")
        names = []
        for seed in range(options.versions):
            adapter = random_adapter(model, Path(directory) / f"adapter{seed}", seed=seed)
            names.append(registry.add(adapter, base_model=str(model)).full_name)
        rounds = [names[first :: options.rounds] for first in range(options.rounds)]
        with VLLMServer(str(model), settings, log=Path(directory) / "vllm.log") as server:
            plain, swapping, swaps = asyncio.run(
                measure(server, registry, rounds, every=options.every, pause=options.pause)
            )
    console = Console()
    console.print(
        f"{len(swaps)} swaps until in force: median {statistics.median(swaps):.3f} s, longest {max(swaps):.3f} s"
    )
    console.print(table(plain, swapping))


if __name__ == "__main__":
    main()
