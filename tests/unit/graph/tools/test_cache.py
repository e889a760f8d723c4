"""The cache of tool results, shared by runs and processes."""

import asyncio
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from graph.errors import StorageError
from graph.tools import python, read_page, web_search, wikipedia
from graph.tools.cache import open_cache
from graph.tools.card import ToolCard
from graph.tools.settings import PythonSettings, ReadPageSettings, WebSearchSettings, WikipediaSettings
from tests.fakes import STOP, ScriptedServer, command, plan
from tests.flows import open_flow, scripts

REPOSITORY = Path(__file__).resolve().parents[4]
WRITE = """
import sys
from graph.tools.cache import open_cache
cache = open_cache()
for n in range(20):
    cache.set({(("agentflow", "tools"), f"{sys.argv[1]}-{n}"): ({"n": n}, None)})
"""


@pytest.fixture(autouse=True)
def cached_tool(tmp_path, monkeypatch):
    """The counting tool, with a card that allows caching, and a cache directory of the test's own."""
    from tests.counting_tool import count_calls

    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(count_calls, "metadata", {"card": ToolCard(limits="", best_practice="")})
    return count_calls


async def ask(*calls: dict, cache: bool = True):
    """Ask with these calls of the tool, and return their observations."""
    with ScriptedServer(scripts(executor=[command(*calls)])) as server:
        tools = {"enabled": [], "custom": ["tests.counting_tool:count_calls"], "cache": cache}
        async with open_flow(server, tools=tools) as runner:
            return (await runner.ask("What is 40 + 2?")).turns[0].observations


async def test_the_second_identical_call_is_answered_from_the_cache(counting):
    (first,) = await ask({"text": "a"})
    (second,) = await ask({"text": "a"})
    (other,) = await ask({"text": "b"})
    assert (first.cached, second.cached, other.cached) == (False, True, False)
    assert (second.content, second.arguments, second.repeated) == (first.content, first.arguments, False)
    assert counting.read_text().split() == ["a", "b"]


async def test_arguments_are_compared_as_executed(counting):
    await ask({"text": "a", "size": "3"})
    (second,) = await ask({"size": 3, "text": "a", "unknown": 1})
    assert second.cached


async def test_errors_are_never_cached(counting):
    for _ in range(2):
        (observation,) = await ask({"text": "a", "fail": True})
        assert (observation.status, observation.cached) == ("error", False)
    assert counting.read_text().split() == ["a", "a"]


async def test_without_the_setting_nothing_is_cached(counting, tmp_path):
    await ask({"text": "a"}, cache=False)
    (second,) = await ask({"text": "a"}, cache=False)
    assert not second.cached
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("card", [None, ToolCard(limits="", best_practice="", cacheable=False)])
async def test_tools_that_may_have_effects_are_never_cached(card, counting, cached_tool, monkeypatch):
    monkeypatch.setattr(cached_tool, "metadata", {"card": card} if card else None)
    await ask({"text": "a"})
    (second,) = await ask({"text": "a"})
    assert not second.cached


async def test_another_version_asks_again(counting, cached_tool, monkeypatch):
    await ask({"text": "a"})
    monkeypatch.setattr(cached_tool, "metadata", {"card": ToolCard(limits="", best_practice="", version="2")})
    (second,) = await ask({"text": "a"})
    assert not second.cached


async def test_a_result_is_asked_again_when_its_time_is_up(counting, cached_tool, monkeypatch, tmp_path):
    for seconds, lasting in ((3600, True), (None, False)):
        card = ToolCard(limits="", best_practice="", cache_seconds=seconds, version=str(seconds))
        monkeypatch.setattr(cached_tool, "metadata", {"card": card})
        await ask({"text": "a"})
        with sqlite3.connect(tmp_path / "cache" / "tools.db") as connection:
            (expiring,) = connection.execute("SELECT count(*) FROM cache WHERE expiry IS NOT NULL").fetchone()
            connection.execute("UPDATE cache SET expiry = expiry - 3601")  # an hour passes
        assert bool(expiring) == lasting
        (second,) = await ask({"text": "a"})
        assert second.cached != lasting
        with sqlite3.connect(tmp_path / "cache" / "tools.db") as connection:
            connection.execute("DELETE FROM cache")


def test_what_the_web_says_is_kept_for_a_day():
    web = (
        web_search.build(WebSearchSettings()),
        read_page.build(ReadPageSettings()),
        wikipedia.build(WikipediaSettings()),
    )
    assert {tool.card.cache_seconds for tool in web} == {86_400}
    assert python.build(PythonSettings()).card.cache_seconds is None


async def test_two_processes_share_it(tmp_path):
    """Opened and written by both at once, from nothing."""
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITE, name, cwd=REPOSITORY, stderr=asyncio.subprocess.PIPE
        )
        for name in "ab"
    ]
    for writer in writers:
        _, errors = await writer.communicate()
        assert not errors, errors.decode()
    cache = open_cache()
    keys = [(("agentflow", "tools"), f"{name}-{n}") for name in "ab" for n in range(20)]
    assert {value["n"] for value in cache.get(keys).values()} == set(range(20))
    assert len(cache.get(keys)) == 40


def test_many_create_it_at_once(tmp_path, monkeypatch):
    """Each switches the new file to the write-ahead log, for which SQLite itself does not wait."""
    together = Barrier(8)

    def create(_: int) -> None:
        together.wait()
        open_cache()

    with ThreadPoolExecutor(together.parties) as threads:
        for n in range(10):
            monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / str(n)))
            list(threads.map(create, range(together.parties)))


async def test_a_record_of_another_release_is_asked_again(counting, tmp_path):
    await ask({"text": "a"})
    cache = open_cache()
    with sqlite3.connect(tmp_path / "cache" / "tools.db") as connection:
        (key,) = connection.execute("SELECT key FROM cache").fetchone()
    cache.set({(("agentflow", "tools"), key): ({"other": "fields"}, None)})
    (second,) = await ask({"text": "a"})
    assert (second.status, second.cached) == ("ok", False)


async def test_a_damaged_cache_costs_a_call_and_no_run(counting, tmp_path):
    with ScriptedServer(scripts(planner=[plan()], executor=[command({"text": "a"})], verifier=[STOP])) as server:
        tools = {"enabled": [], "custom": ["tests.counting_tool:count_calls"], "cache": True}
        async with open_flow(server, tools=tools) as runner:
            with sqlite3.connect(tmp_path / "cache" / "tools.db") as connection:
                connection.execute("DROP TABLE cache")
            done = await runner.ask("What is 40 + 2?")
    assert (done.answer, done.turns[0].observations[0].status) == ("42", "ok")


def test_a_file_that_is_no_cache_is_a_sentence(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tools.db").write_bytes(b"something else" * 100)
    with pytest.raises(StorageError, match=r"The cache of tool results .* cannot be opened: .*; remove it"):
        open_cache()
