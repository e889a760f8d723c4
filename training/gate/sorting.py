"""Trajectories, sorted by their use into files."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

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

    def with_note(self, sentence: str) -> Self:
        """Return the same, with one more thing that was not checked."""
        told = (*self.report.not_checked, sentence)
        return replace(self, report=self.report.model_copy(update={"not_checked": told}))


class SortedFiles:
    """A file for each use, in a directory. They appear when the block ends well.

    An exact trajectory may be a demonstration, too: it is in both files. Of those whose questions are asked again,
    the first with each question stands for all.
    """

    def __init__(self, sorting: Sorting, out: Path) -> None:
        """Use directory `out`.

        Raises:
            ConfigError: it is not empty, or cannot be used.
        """
        refuse_full(out)
        self.written = dict.fromkeys(FILES, 0)
        """Lines by use."""
        self._sorting = sorting
        self._out = out
        self._files: dict[Use, JsonlWriter] = {}
        self._stack = ExitStack()
        self._done: set[str] = set()
        self._asked: set[bytes] = set()

    def __enter__(self) -> Self:
        """Open the files.

        Raises:
            ConfigError: they cannot be written.
        """
        with ExitStack() as stack:
            for use, name in FILES.items():
                self._files[use] = stack.enter_context(JsonlWriter(self._out / name))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the files in their places, or leave none."""
        self._stack.__exit__(kind, error, trace)

    def write(self, trajectory: Trajectory) -> None:
        """Write one of the trajectories that the gate read; another one, or one that was there before, is left out.

        Raises:
            TraceError: it has another reward than when the gate read it.
        """
        facts = self._sorting.facts.get(trajectory.id)
        if facts is None or facts.id in self._done:
            return
        if facts.reward != trajectory.reward:
            raise TraceError(f"The trajectory {facts.id} has changed since it was read: validate again.")
        self._done.add(facts.id)
        uses = self._sorting.uses[facts.id]
        if Use.QUESTION in uses:
            uses = uses - {Use.QUESTION} if facts.question in self._asked else uses
            self._asked.add(facts.question)
        line = trajectory.model_dump_json() if uses else ""
        for use in uses:
            self._files[use].write(line)
            self.written[use] += 1


def refuse_full(out: Path) -> None:
    """Refuse a directory for new files that holds some.

    Raises:
        ConfigError: it is not empty, or cannot be used.
    """
    try:
        full = any(out.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{out} cannot be used ({error.strerror}): give --out a new directory.") from error
    if full:
        raise ConfigError(f"{out} is not empty: give --out a new directory.")
