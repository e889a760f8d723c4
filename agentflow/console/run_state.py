"""What is still to be said of a run that has not come to its answer."""

from agentflow.console.run_table import status_of
from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean
from graph.storage.owner import process_id
from graph.storage.runs import RunRow


def print_state(console: PlainConsole, row: RunRow, error: str | None) -> None:
    """Say that a run is still going, or how to go on with one that stopped; nothing for one that finished."""
    match status_of(row):
        case "running":
            process = process_id(row.owner) if row.owner else "unknown"
            console.print(f"still running (process {process})", soft_wrap=True)
        case "interrupted" | "failed" | "cancelled" as state:
            why = f": {clean(error)}" if error else ""
            console.print(f"{state}{why}\ngo on with: agentflow runs resume {row.id}", soft_wrap=True)
