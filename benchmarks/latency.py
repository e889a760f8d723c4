"""How soon the embedded engine answers: its start, and a simple question's first event, first token and answer.

    python benchmarks/latency.py [--repeats 3]

Stops a running engine, then asks through the command line as a user does. The first question meets a fresh engine with
its saved slots; the later ones find it running. Prints seconds, and prefilled and cached tokens of every call.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from graph.config import load_config
from graph.engine import ensure_engine, stop_engine

QUESTION = "What is 17 times 23?"


def ask() -> tuple[list[tuple[float, dict[str, Any]]], float]:
    """Run one question and return its events with the seconds at which they came, and the seconds it took."""
    start = time.monotonic()
    command = [sys.executable, "-m", "agentflow", "ask", QUESTION, "--json"]
    events = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        events = [(time.monotonic() - start, json.loads(line)) for line in process.stdout]
    return events, time.monotonic() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    console = Console()
    stop_engine()
    start = time.monotonic()
    ensure_engine(load_config().config.local)
    console.print(f"Engine start: {time.monotonic() - start:.1f} s")
    table = Table("question", "first event", "first token", "answer", "right", "prefilled / cached tokens by call")
    for number in range(1, repeats + 1):
        events, whole = ask()
        first_token = next((at for at, event in events if event["event"] == "token"), None)
        calls = [event for _, event in events if event["event"] == "call"]
        usage = ", ".join(
            f"{call['role']} {call['usage']['prompt'] - (call['usage']['cached'] or 0)} / {call['usage']['cached']}"
            for call in calls
        )
        answer = str(events[-1][1].get("answer"))
        table.add_row(
            str(number),
            f"{events[0][0]:.2f} s",
            f"{first_token:.1f} s" if first_token is not None else "none",
            f"{whole:.1f} s",
            "yes" if "391" in answer else f"no: {answer}",
            usage,
        )
    console.print(table)


if __name__ == "__main__":
    main()
