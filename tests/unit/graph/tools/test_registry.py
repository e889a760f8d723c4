"""Which tools a run is offered: built-ins, the user's own, and those of MCP servers."""

import sys
from pathlib import Path

import pytest

from graph.corpus.document import Document
from graph.corpus.index import build_index
from graph.errors import ConfigError
from graph.tools.registry import argument_schema, open_toolbox
from graph.tools.settings import ToolsSettings
from tests.fakes import STOP, ScriptedServer, command, plan
from tests.flows import open_flow, scripts

SERVER = {
    "transport": "stdio",
    "command": sys.executable,
    "args": [str(Path(__file__).parents[3] / "mcp_server.py")],
}


def settings(*custom: str, enabled: tuple[str, ...] = (), **others) -> ToolsSettings:
    return ToolsSettings(enabled=enabled, custom=tuple(f"tests.own_tools:{name}" for name in custom), **others)


async def test_a_tool_and_a_callable_that_returns_one():
    async with open_toolbox(settings("greet", "make_greeter"), None) as box:
        assert list(box.tools) == ["greet", "greeter"]
        greet, greeter = box.describe()
    assert (greet.description, greet.limits, greet.version) == ("Greets somebody.", "", "1")
    assert greet.arguments == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    assert (greeter.description, greeter.limits, greeter.best_practice, greeter.version) == (
        "Greets well. Always.",
        "Only here.",
        "Try it.",
        "7",
    )


async def test_a_tool_without_a_card_may_have_effects_and_is_not_cached():
    async with open_toolbox(settings("greet", "make_greeter"), None) as box:
        assert not box.card("greet").cacheable
        assert box.card("greeter").cacheable


async def test_the_order_of_enabled_is_the_order_of_the_prompt():
    async with open_toolbox(settings("greet", "make_greeter", enabled=("greeter", "greet")), None) as box:
        assert list(box.tools) == ["greeter", "greet"]


async def test_a_tool_that_cannot_be_offered_is_named_with_its_reason():
    async with open_toolbox(settings("greet", "Needy"), None) as box:
        assert list(box.tools) == ["greet"]
        assert box.unavailable == {"needy": "it needs something that is not here"}
        with pytest.raises(ConfigError, match="'needy' cannot be used: it needs something"):
            box.only(["needy"])
        with pytest.raises(ConfigError, match="'cook' cannot be used: known here are greet"):
            box.only(["cook"])
        assert list(box.only(["greet"]).tools) == ["greet"]


async def test_a_tool_whose_check_fails_is_not_offered():
    async with open_toolbox(settings("greet", "Unsure"), None) as box:
        assert list(box.tools) == ["greet"]
        assert box.unavailable == {"unsure": "its check failed with SystemExit: 3"}


def test_an_argument_may_be_called_title():
    from tests.own_tools import Needy

    expected = {"type": "string", "description": "a title"}
    assert argument_schema(Needy())["properties"] == {"title": expected}


@pytest.mark.parametrize(
    ("custom", "sentence"),
    [
        ("tests.own_tools", "must be written as module:object"),
        ("tests.nowhere:x", "cannot be loaded: ModuleNotFoundError"),
        ("tests.own_tools:nothing", "cannot be loaded: AttributeError"),
        ("tests.own_tools:not_a_tool", "is int, not a LangChain tool"),
        ("tests.own_tools:broken", "cannot be loaded: RuntimeError: it has no engine"),
        ("tests.own_tools:leave", "cannot be loaded: SystemExit: 3"),
        ("builtins:list", "is list, not a LangChain tool"),
        (":greet", "cannot be loaded|must be written"),
        ("tests.own_tools:", "cannot be loaded|must be written"),
    ],
)
async def test_a_custom_tool_that_cannot_be_loaded(custom, sentence):
    with pytest.raises(ConfigError, match=sentence) as raised:
        async with open_toolbox(ToolsSettings(enabled=(), custom=(custom,)), None):
            pass
    assert "\n" not in str(raised.value)


async def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="Two of your own tools are called 'greet'"):
        async with open_toolbox(settings("greet", "twin"), None):
            pass


async def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"There is no tool 'pyhton'; known are python, search_corpus, .*generate"):
        async with open_toolbox(settings(enabled=("pyhton",)), None):
            pass


async def test_generate_needs_a_model():
    async with open_toolbox(settings(enabled=("generate",)), None) as box:
        assert box.unavailable == {"generate": "it needs a model"}


async def test_a_module_in_the_working_directory(tmp_path, monkeypatch):
    """As a user has it: an installed command does not look there by itself."""
    (tmp_path / "my_own_tools.py").write_text(
        "from langchain_core.tools import tool\n\n@tool\nasync def wave() -> str:\n    'Waves.'\n    return 'hi'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    async with open_toolbox(ToolsSettings(enabled=(), custom=("my_own_tools:wave",)), None) as box:
        assert list(box.tools) == ["wave"]
    sys.modules.pop("my_own_tools")


async def test_settings_and_the_index_are_part_of_the_version(tmp_path):
    """The result cache must not give one setting's or one corpus's results for another."""
    index = tmp_path / "index.db"

    async def version(text: str, top_k: int) -> str:
        build_index([Document("1", "A", text, "x")], index)
        own = settings(enabled=("search_corpus",), search_corpus={"path": index, "top_k": top_k})
        async with open_toolbox(own, None) as box:
            return box.describe()[0].version

    assert len({await version("a", 5), await version("a", 6), await version("another text", 6)}) == 3


async def test_an_mcp_servers_tools_in_a_run(counting):
    """A real server, over standard input and output."""
    replies = scripts(
        planner=[plan("shout"), plan("refuse"), plan("ping")],
        executor=[
            command({"text": "a", "times": 2}, {"wrong": 1}),
            command({"reason": "because"}),
            '{"calls": [{}]}',
        ],
        verifier=['{"stop": false}', '{"stop": false}', '{"stop": true}'],
    )
    with ScriptedServer(replies) as server:
        async with open_flow(server, tools={"enabled": [], "custom": [], "mcp": {"test": SERVER}}) as runner:
            done = await runner.ask("What is 40 + 2?")
    seen = [(o.tool, o.status, o.content.split("\n")[0]) for turn in done.turns for o in turn.observations]
    assert seen[0] == ("shout", "ok", "A A")
    assert seen[1][:2] == ("shout", "error")
    assert seen[2] == ("refuse", "error", "Error executing tool refuse: because")
    assert seen[3] == ("ping", "ok", "pong")
    assert done.answer == "42"
    schema = server.of("executor")[0]["response_format"]["json_schema"]["schema"]["properties"]["calls"]["items"]
    assert schema["properties"]["times"] == {"type": "integer", "default": 1}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pipes of a server that ended by itself
async def test_an_mcp_server_that_ends_is_named_in_that_call_and_in_later_ones():
    replies = scripts(
        planner=[plan("end"), plan("ping")], executor=['{"calls": [{}]}'] * 2, verifier=['{"stop": false}', STOP]
    )
    with ScriptedServer(replies) as server:
        async with open_flow(server, tools={"enabled": [], "custom": [], "mcp": {"test": SERVER}}) as runner:
            done = await runner.ask("What is 40 + 2?")
    seen = [(o.tool, o.status, o.content) for turn in done.turns for o in turn.observations]
    assert seen == [(name, "error", "The MCP server test has ended: use another tool.") for name in ("end", "ping")]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pipes of a server that ended by itself
@pytest.mark.parametrize(
    "connection",
    [
        {"transport": "stdio", "command": "/nowhere/server", "args": []},
        {"transport": "stdio", "command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        {"transport": "streamable_http", "url": "http://127.0.0.1:9/mcp"},
        {"transport": "sse", "url": "http://127.0.0.1:9/sse"},
        {"transport": "smoke signals"},
        {"command": sys.executable},
        {"transport": "streamable_http"},
    ],
)
async def test_an_mcp_server_that_does_not_start(connection):
    with pytest.raises(ConfigError, match=r"The MCP server 'test' does not start: .") as raised:
        async with open_toolbox(settings(mcp={"test": connection}), None):
            pass
    assert "\n" not in str(raised.value)
