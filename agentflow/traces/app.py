"""`agentflow traces`: what runs left, for people, for files and for training."""

import typer

from agentflow.traces.exporting import export
from agentflow.traces.listing import list_traces
from agentflow.traces.schema import schema

app = typer.Typer(no_args_is_help=True, help="List, show, export, import, check and compare trajectories.")
app.command("list")(list_traces)
app.command("export")(export)
app.command("schema")(schema)
