"""A question leaves the same trace whoever asks it: only where it came from, and when, differs."""

import asyncio
import json
from typing import Any

from graph.runner import open_runner
from graph.storage.database import open_database
from graph.traces.selection import Selection
from tests.command import Workplace
from tests.fakes import GO_ON, STOP, ScriptedServer, command, plan
from tests.flows import config_for, scripts

QUESTION = "What is 40 + 2?"
PROVENANCE = ("id", "source", "conversation", "group", "dataset", "tags", "reference")
TIMES = ("created", "seconds", "at", "first_token_seconds")
ASKED: list[dict[str, Any]] = [
    {"source": "chat", "conversation": "c"},
    {"source": "evaluation", "dataset": "starter", "reference": ["42"], "tags": ["e"]},
    {"source": "rollout", "group": "g", "reference": ["42"]},
]


def without(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: without(inner, names) for name, inner in value.items() if name not in names}
    return [without(inner, names) for inner in value] if isinstance(value, list) else value


async def ask_as_others(server: ScriptedServer, url: str) -> None:
    config = config_for(server)
    async with open_database(url) as database:
        for asked in ASKED:
            durability = "exit" if asked["source"] == "rollout" else "async"
            async with open_runner(config, database=database, durability=durability) as runner:
                await runner.ask(QUESTION, **asked)


async def exported(url: str) -> list[dict[str, Any]]:
    async with open_database(url) as database:
        return [json.loads(found.model_dump_json()) async for found in database.traces.stream(Selection())]


def test_exports_of_each_source_differ_only_in_provenance(tmp_path, counting):
    replies = scripts(
        planner=["no plan", plan(sub_goal="first"), plan(sub_goal="second")] * 4,
        executor=[command({"text": "a"}), command({"text": "b"}, {"text": "c"})] * 4,
        verifier=[GO_ON, STOP] * 4,
    )
    replies |= {role: list(replies[role]) * 4 for role in ("analyzer", "generator")}
    url = str(tmp_path / ".agentflow" / "runs.db")
    with ScriptedServer(replies, owned_by="vllm") as server:
        place = Workplace(tmp_path, server.url)
        place.call("ask", QUESTION)
        asyncio.run(ask_as_others(server, url))
    found = asyncio.run(exported(url))
    assert [one["source"] for one in found] == ["ask", "chat", "evaluation", "rollout"]
    assert {name: found[2][name] for name in ("dataset", "reference", "tags", "group")} == {
        "dataset": "starter",
        "reference": ["42"],
        "tags": ["e"],
        "group": None,
    }
    same = [without(one, (*PROVENANCE, *TIMES, "config_hash")) for one in found]
    assert same[0] == same[1] == same[2] == same[3]
    assert len(same[0]["turns"]) == 3
    assert all(call["completion_ids"] and call["prompt_ids"] for call in same[0]["calls"])
