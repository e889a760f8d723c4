"""Policies in a list and one by one, for people and for programs."""

import json
from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from agentflow.console.row import Row
from agentflow.console.terminal import PlainConsole
from agentflow.console.text import moment, one_line
from graph.policies.policy import Policy

_COLUMNS = ("policy", "kind", "state", "created", "base model", "notes")


def print_policies(
    policies: Sequence[Policy], *, promoted: str | None, loaded: Collection[str] | None, as_json: bool
) -> None:
    """Print a table on a terminal, and lines with tabs elsewhere; or an object a line.

    `loaded` is what the planner's server holds; None where it does not say.
    """
    if as_json:
        for policy in policies:
            print(json.dumps(as_object(policy, promoted=promoted, loaded=loaded)))
        return
    console = PlainConsole()
    rows = [_cells(policy, promoted, loaded) for policy in policies]
    if not console.live:
        for cells in rows:
            print("\t".join(cells))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    for name in _COLUMNS:
        ratio = 1 if name in {"base model", "notes"} else None
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row), style="bold" if row[0] == promoted else None)
    console.print(table)


def print_policy(policy: Policy, *, promoted: str | None, loaded: Collection[str] | None, directory: str) -> None:
    """Print everything that is known of one version."""
    fields = {
        "policy": policy.full_name,
        "state": _state(policy, promoted, loaded) or ("not loaded" if loaded is not None else ""),
        "kind": policy.kind,
        "base": policy.base_model + (f" ({policy.base_revision})" if policy.base_revision else ""),
        "parent": policy.parent or "",
        "run": policy.training_run or "",
        "config": policy.config_hash or "",
        "created": moment(policy.created),
        "metrics": "\n".join(f"{name} {value:g}" for name, value in policy.metrics.items()),
        "notes": policy.notes,
        "directory": directory,
        "files": "\n".join(f"{digest[:12]} {name}" for name, digest in policy.files.items()),
    }
    console = PlainConsole()
    for label, text in fields.items():
        if text:
            Row(label, text).print(console)


def as_object(policy: Policy, *, promoted: str | None, loaded: Collection[str] | None) -> dict[str, object]:
    """Return what `--json` prints of a version: its record, and what is done with it."""
    held = None if loaded is None else policy.full_name in loaded
    return {
        "policy": policy.full_name,
        **policy.model_dump(mode="json"),
        "promoted": policy.full_name == promoted,
        "loaded": held,
    }


def _cells(policy: Policy, promoted: str | None, loaded: Collection[str] | None) -> list[str]:
    state = _state(policy, promoted, loaded)
    told = one_line(policy.base_model), one_line(policy.notes)
    return [policy.full_name, policy.kind, state, moment(policy.created), *told]


def _state(policy: Policy, promoted: str | None, loaded: Collection[str] | None) -> str:
    marks = {"promoted": policy.full_name == promoted, "loaded": loaded is not None and policy.full_name in loaded}
    return ", ".join(mark for mark, holds in marks.items() if holds)
