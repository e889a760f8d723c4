"""What a trajectory is, before what happened in it."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, moment, one_line
from graph.feedback import Feedback
from graph.trace import Trajectory

_LABEL_WIDTH = 12
_MAX_WIDTH = 120


def print_header(console: PlainConsole, trajectory: Trajectory, *, verbose: bool) -> None:
    """Print where a trajectory is from and what it earned, as far as it is known."""
    rows = [(label, clean(text)) for label, text in _rows(trajectory, verbose) if text]
    if not console.live:
        for label, text in rows:
            indented = text.replace("\n", "\n" + " " * (_LABEL_WIDTH + 1))
            console.print(Text(f"{label:<{_LABEL_WIDTH}} {indented}"), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=_LABEL_WIDTH, style="dim", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for label, text in rows:
        grid.add_row(Text(label), Text(text))
    console.print(grid, width=min(console.width, _MAX_WIDTH))


def _rows(trajectory: Trajectory, verbose: bool) -> Iterator[tuple[str, str | None]]:
    yield "trajectory", trajectory.id
    yield "when", moment(trajectory.created, to_seconds=True)
    yield "source", trajectory.source
    yield "conversation", trajectory.conversation
    yield "fork of", _parent(trajectory)
    yield "dataset", trajectory.dataset
    yield "group", trajectory.group
    yield "policy", " + ".join(map(one_line, trajectory.policies))
    if trajectory.reward is not None:
        yield "reward", f"{trajectory.reward:g} ({one_line(trajectory.reward_source or '')})"
    yield "reference", " | ".join(map(one_line, trajectory.reference or ()))
    yield "feedback", "\n".join(map(_remark, trajectory.feedback))
    yield "tags", ", ".join(map(one_line, trajectory.tags))
    yield "redacted", ", ".join(map(one_line, trajectory.redacted))
    if verbose:
        yield "tools", ", ".join(map(one_line, trajectory.tools))
        yield "settings", trajectory.config_hash
        yield "prompts", ", ".join(f"{role} {digest}" for role, digest in trajectory.prompts.items())
        yield "versions", ", ".join(f"{package} {version}" for package, version in trajectory.versions.items())


def _parent(trajectory: Trajectory) -> str | None:
    if trajectory.parent is None or trajectory.parent_turns is None:
        return trajectory.parent
    return f"{trajectory.parent}, from turn {trajectory.parent_turns + 1}"


def _remark(remark: Feedback) -> str:
    right = None if remark.answer is None else f"right answer: {one_line(remark.answer)}"
    note = None if remark.note is None else one_line(remark.note)
    told = moment(remark.at, to_seconds=True), remark.author, remark.verdict, right, note
    return " · ".join(part for part in told if part)
