"""`agentflow traces send`."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.console.counter import Counter
from agentflow.console.damage import DamageReport
from agentflow.console.terminal import complain
from agentflow.options import ConfigFile, Overrides, settings
from agentflow.traces.options import Chosen, trajectories, with_filters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from graph.trace import Trajectory
    from graph.traces.redaction import Redactor
    from graph.traces.telemetry.sending import Sender


@with_filters
def send(
    context: typer.Context,
    chosen: Chosen,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The collector, such as http://127.0.0.1:4318.",
            show_default="traces.otlp_endpoint",
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace mail addresses, telephone numbers and the like; keys always are.")
    ] = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Send trajectories to an OpenTelemetry collector, which takes OTLP over HTTP, with OpenInference attributes."""
    from graph.errors import CollectorError, ConfigError
    from graph.traces.redaction import Redactor
    from graph.traces.telemetry.sending import Sender, address_of, is_disabled

    config = settings(context, config_file, overrides).config
    address = address_of(endpoint, config.traces.otlp_endpoint)
    if is_disabled():
        raise ConfigError("Nothing is sent, as OTEL_SDK_DISABLED is true: unset it.")
    sender = Sender(address)
    redactor = Redactor.of(config, personal=redact, own={})
    try:
        with DamageReport() as report, Counter("Sent", "trajectories") as count:
            asyncio.run(_send(trajectories(config, chosen, report), redactor, sender, count))
    except CollectorError as error:
        raise CollectorError(f"{str(error).removesuffix('.')}; {sender.sent:,} trajectories were sent.") from error
    finally:
        sender.close()
    if not sender.sent:
        complain("There are no such trajectories; nothing was sent.")
        return
    many = "trajectory" if sender.sent == 1 else "trajectories"
    complain(f"Sent {sender.sent:,} {many} ({sender.spans:,} spans) to {address}.")


async def _send(found: "AsyncIterator[Trajectory]", redactor: "Redactor", sender: "Sender", count: Counter) -> None:
    async for trajectory in found:
        await asyncio.to_thread(_add, trajectory, redactor, sender)
        count(sender.sent)
    await asyncio.to_thread(sender.flush)


def _add(trajectory: "Trajectory", redactor: "Redactor", sender: "Sender") -> None:
    sender.add(redactor.redact(trajectory))
