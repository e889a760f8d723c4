"""`agentflow traces`: what runs left, for people, for files and for training."""

import typer

from agentflow.traces.difference import diff
from agentflow.traces.exporting import export
from agentflow.traces.importing import import_traces
from agentflow.traces.listing import list_traces
from agentflow.traces.schema import schema
from agentflow.traces.showing import show
from agentflow.traces.statistics import stats
from agentflow.traces.telemetry import send
from agentflow.traces.validate import validate

app = typer.Typer(no_args_is_help=True, help="List, show, export, import, check and compare trajectories.")
app.command("list")(list_traces)
app.command("diff")(diff)
app.command("export")(export)
app.command("import")(import_traces)
app.command("schema")(schema)
app.command("send")(send)
app.command("show")(show)
app.command("stats")(stats)
app.command("validate")(validate)
