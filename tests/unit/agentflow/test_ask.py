from pathlib import Path

import pytest

from graph.errors import ConfigError
from tests.command import Workplace, events, kinds
from tests.fakes import STOP, ScriptedServer, answer, command, plan
from tests.flows import scripts
from tests.unit.agentflow.conftest import Call

CARDED_TOOL = """
from langchain_core.tools import tool
from graph.tools.card import ToolCard

@tool
def count_calls(text: str) -> str:
    "Notes a text."
    with open("counts.txt", "a") as file:
        file.write(text)
    return text

count_calls.metadata = {"card": ToolCard(limits="", best_practice="")}
"""


def test_options_reach_the_run(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    output = call("ask", "What?", "--max-turns", "0", "--set", "models.generator.temperature=0.25", "--verbose")
    assert server.roles == ["generator"]
    assert server.requests[0]["temperature"] == 0.25
    assert "prompt " in output
    assert " read + 0 cached, " in output
    call("--set", "budgets.max_turns=0", "ask", "What?")
    assert server.roles == ["generator", "generator"]


def test_no_stream_leaves_tokens_out(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    assert "token" in kinds(call("ask", "What?", "--json"))
    assert "token" not in kinds(call("ask", "What?", "--json", "--no-stream"))


def test_only_the_named_tools_are_offered(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    with pytest.raises(ConfigError, match="'python' cannot be used: known here are count_calls"):
        call("ask", "What?", "--tools", "python")
    with pytest.raises(ConfigError, match="--tools names no tool"):
        call("ask", "What?", "--tools", " , ")
    call("ask", "What?", "--tools", "count_calls")
    assert server.count("planner") == 1


def test_without_any_tool_it_answers_directly(call: Call, place: Workplace, server: ScriptedServer):
    place.write_config(server.url)
    assert "all turns were used" not in call("ask", "What?", "--set", "tools.custom=[]")
    assert server.roles == ["generator"]


def test_cache_keeps_results_of_tools(call: Call, place: Workplace, server: ScriptedServer, tmp_path: Path):
    (tmp_path / "carded.py").write_text(CARDED_TOOL)
    place.write_config(server.url)
    for seen in (False, True):
        output = call("ask", "What?", "--cache", "--json", "--set", 'tools.custom=["carded:count_calls"]')
        assert [event["cached"] for event in events(output) if event["event"] == "observation"] == [seen]
    assert (tmp_path / "counts.txt").read_text() == "a"


def test_a_conversation_goes_on(call: Call, place: Workplace):
    followup = '{"question": "Who was the wife of A?", "summary": "s", "skills": "", "tools": [], "considerations": ""}'
    analysis = '{"summary": "s", "skills": "", "tools": [], "considerations": ""}'
    replies = scripts(
        analyzer=[analysis, followup],
        planner=[plan(), plan()],
        executor=[command({"text": "a"})] * 2,
        verifier=[STOP] * 2,
        generator=[answer("A"), answer("B")],
    )
    with ScriptedServer(replies) as server:
        place.write_config(server.url)
        first = events(call("ask", "Who was the first?", "--json"))[-1]["id"]
        assert "asked as: Who was the wife of A?" in call("ask", "And his wife?", "--conversation", first)
        assert "Who was the first?" in server.of("analyzer")[1]["messages"][-1]["content"]
        with pytest.raises(ConfigError, match="There is no run or conversation 'none'"):
            call("ask", "And his son?", "--conversation", "none")
