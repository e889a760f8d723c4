"""Trajectories, sorted by their use into files."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graph.errors import ConfigError, TraceError
from graph.trace import Trajectory
from graph.traces.jsonl import JsonlWriter
from training.gate.facts import Facts
from training.gate.judging import Use
from training.gate.report import GateReport

FILES: Final = {
    Use.EXACT: "exact.jsonl",
    Use.QUESTION: "questions.jsonl",
    Use.DEMONSTRATION: "demonstrations.jsonl",
}


@dataclass(frozen=True)
class Sorting:
    """The gate's report, and the use of each trajectory that it read."""

    report: GateReport
    facts: Mapping[str, Facts]
    uses: Mapping[str, frozenset[Use]]
    """By id; empty for what is unusable."""

    def write(self, trajectories: Iterable[Trajectory], out: Path) -> None:
        """Write a file for each use into a directory, which must not exist yet or be empty.

        A trajectory may be in two: an exact one may be a demonstration, too. Of trajectories with one question, the
        first stands for all in `questions.jsonl`.

        Args:
            trajectories: those that the gate read, once more; what it did not read is left out.
            out: the directory.

        Raises:
            ConfigError: the directory is not empty, or cannot be written.
            TraceError: a trajectory has another reward than when the gate read it.
        """
        refuse_full(out)
        done: set[str] = set()
        asked: set[bytes] = set()
        with ExitStack() as stack:
            files = {use: stack.enter_context(JsonlWriter(out / name)) for use, name in FILES.items()}
            for trajectory in trajectories:
                facts = self.facts.get(trajectory.id)
                if facts is None or facts.id in done:
                    continue
                if facts.reward != trajectory.reward:
                    raise TraceError(f"The trajectory {facts.id} has changed since it was read: validate again.")
                done.add(facts.id)
                uses = self.uses[facts.id]
                if Use.QUESTION in uses and facts.question in asked:
                    uses -= {Use.QUESTION}
                elif Use.QUESTION in uses:
                    asked.add(facts.question)
                line = trajectory.model_dump_json() if uses else ""
                for use in uses:
                    files[use].write(line)


def refuse_full(out: Path) -> None:
    """Raise ConfigError unless a directory is missing or empty."""
    try:
        if any(out.iterdir()):
            raise ConfigError(f"{out} is not empty: give --out a new directory.")
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{out} cannot be used ({error.strerror}): give --out a new directory.") from error
