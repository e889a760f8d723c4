"""What docs/asking.md shows works, and its tables name every setting with its default."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from agentflow.main import app
from graph.config import FlowConfig, ModelConfig, leaves, load_config
from graph.nodes.tools import ToolTask, fit_arguments, tools
from graph.tools.card import ToolCard
from graph.tools.registry import open_toolbox
from graph.tools.settings import ToolsSettings
from tests.unit.graph.nodes.test_tools import Runtime

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "asking.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def table(head: str) -> dict[str, str]:
    """The first two columns of the table whose first heading is `head`."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {name: row[1] for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


def defaults(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    return {prefix + key: value for key, value in leaves(model())}


def check(written: dict[str, str], true: dict[str, Any]) -> None:
    assert set(written) == set(true)
    for name, cell in written.items():
        if name == "tools.enabled":
            continue
        shown = tomllib.loads(f"value = {cell.strip('`')}")["value"] if cell else None
        assert shown == true[name], name


def test_the_tables_name_every_setting_with_its_default():
    check(table("setting"), defaults(ToolsSettings, "tools."))
    check(table("`[models.ROLE]`"), ModelConfig().model_dump())
    check(table("`[budgets]`"), FlowConfig().budgets.model_dump())
    assert set(table("field of a card")) == set(ToolCard.model_fields)


def test_the_options_are_those_of_the_command():
    ask = typer.main.get_command(app).commands["ask"]
    real = {name for option in ask.params for name in option.opts if name.startswith("-")} - {"--help", "-h"}
    shown = {part.split()[0] for name in table("option") for part in name.split(", ")}
    assert shown == real


@pytest.mark.parametrize("block", blocks("toml"))
def test_every_configuration_is_valid(block, tmp_path):
    (tmp_path / "agentflow.toml").write_text(block)
    load_config(tmp_path / "agentflow.toml")


@pytest.fixture
def my_tools(tmp_path, monkeypatch):
    (example,) = blocks("python")
    (tmp_path / "my_tools.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_tools", None)


@pytest.mark.usefixtures("my_tools")
async def test_the_example_of_a_tool_works_as_configured():
    (custom,) = [found for block in blocks("toml") if (found := tomllib.loads(block).get("tools", {}).get("custom"))]
    async with open_toolbox(ToolsSettings(enabled=(), custom=tuple(custom)), None) as box:
        assert list(box.tools) == ["convert_currency", "stock"]
        assert (box.card("convert_currency").timeout, box.card("stock").cache_seconds) == (5, 60)
        for name, card in ((name, box.card(name)) for name in box.tools):
            for example in card.examples:
                assert fit_arguments(box.tools[name], example.arguments)[1] is None
        seen = [
            (await call(box.tools[name], arguments))
            for name, arguments in (
                ("convert_currency", {"amount": 20, "source": "EUR", "target": "CHF"}),
                ("convert_currency", {"amount": 20, "source": "EUR", "target": "XXX"}),
                ("stock", {"item": "apples"}),
                ("stock", {"item": "plums"}),
            )
        ]
    assert seen == [
        ("ok", "19.00 CHF"),
        ("error", "convert_currency failed: KeyError: 'XXX'"),
        ("ok", "12 apples"),
        ("error", "There are no plums; known are apples, pears."),
    ]


async def call(tool: Any, arguments: dict[str, Any]) -> tuple[str, str]:
    task = ToolTask(tool=tool.name, arguments=arguments, turn=0, index=0)
    (observation,) = (await tools(task, Runtime(tool)))["turns"]
    return observation.status, observation.content
