"""`agentflow feedback`: what a person says of a run."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, moment
from agentflow.options import AsJson, ConfigFile, Overrides, RunId, settings
from agentflow.storage import find_run, open_existing

if TYPE_CHECKING:
    from graph.config import FlowConfig
    from graph.feedback import Feedback
    from graph.storage.runs import RunRow


def feedback(
    context: typer.Context,
    run: RunId,
    good: Annotated[bool, typer.Option("--good", help="The answer is right: reward 1.")] = False,
    bad: Annotated[bool, typer.Option("--bad", help="The answer is wrong: reward 0.")] = False,
    answer: Annotated[str | None, typer.Option(metavar="TEXT", help="The right answer, in short.")] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="What else there is to say.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Forget what was said of this run.")] = False,
    as_json: AsJson = False,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
) -> None:
    """Say whether a run's answer is right. Exports carry it as the reward; without options, show what was said."""
    from graph.errors import ConfigError
    from graph.feedback import new_feedback
    from graph.known_secrets import KnownSecrets

    if good and bad:
        raise ConfigError("--good and --bad exclude each other: choose one.")
    says_something = good or bad or answer is not None or note is not None
    if withdraw and says_something:
        raise ConfigError("--withdraw goes alone: it forgets what was said before.")
    config = settings(context, config_file, overrides).config
    verdict: Literal["good", "bad"] | None = "good" if good else "bad" if bad else None
    remark = new_feedback(verdict=verdict, answer=answer, note=note) if says_something else None
    remark = KnownSecrets.of(config).hide_all(remark)
    row, remarks = asyncio.run(_keep(config, run, remark, withdraw=withdraw))
    if as_json:
        print(json.dumps({"id": row.id, "feedback": [remark.model_dump(mode="json") for remark in remarks]}))
        return
    _print(row, remarks)


async def _keep(
    config: "FlowConfig", run: str, remark: "Feedback | None", *, withdraw: bool
) -> "tuple[RunRow, list[Feedback]]":
    async with open_existing(config) as database:
        row = await find_run(database, run)
        if withdraw:
            await database.traces.withdraw(row.id)
        if remark:
            await database.traces.say(row.id, remark)
        return await find_run(database, row.id), await database.traces.feedback(row.id)


def _print(row: "RunRow", remarks: "list[Feedback]") -> None:
    console = PlainConsole()
    if not remarks:
        console.print(f"Nothing was said of the run {row.id}.", soft_wrap=True)
        return
    for remark in remarks:
        when = moment(remark.at)
        said = [remark.author, remark.verdict, remark.answer and f"right answer: {remark.answer}", remark.note]
        console.print(f"{when}  " + clean(" · ".join(part for part in said if part)), soft_wrap=True)
    if row.reward is None and row.stop in {"FAILED", "CANCELLED"}:
        console.print(f"The run ended {row.stop}: it gets no reward.", soft_wrap=True)
