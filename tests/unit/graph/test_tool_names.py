"""Names of tools as models spell them (case 2)."""

import pytest

from graph.tool_names import resolve_tool

OFFERED = ["generate", "python", "search_corpus", "wikipedia", "web_search", "read_page"]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("python", "python"),
        ("Python", "python"),
        ("PYTHON", "python"),
        ("`python`", "python"),
        ("'python'", "python"),
        ('"python"', "python"),
        ("**python**", "python"),
        ("python.", "python"),
        ("python()", "python"),
        (" python \n", "python"),
        ("Python Coder", "python"),
        ("Python_Coder_Tool", "python"),
        ("the python tool", "python"),
        ("tool: python", "python"),
        ("functions.python", "python"),
        ("web-search", "web_search"),
        ("Web Search", "web_search"),
        ("WebSearch", "web_search"),
        ("websearch", "web_search"),
        ("corpus search", "search_corpus"),
        ("search corpus tool", "search_corpus"),
        ("wikipedia search", "wikipedia"),
        ("Read Page.", "read_page"),
    ],
)
def test_the_tool_meant_is_found(name, tool):
    assert resolve_tool(name, OFFERED) == tool


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "...",
        "tool",
        "search",
        "google search",
        "none",
        "not python",
        "python and generate",
        "python, generate",
        "generate_python",
        "pythons",
        "python 2",
        "pytho",
        "计算",
    ],
)
def test_no_tool_or_two_are_never_resolved(name):
    assert resolve_tool(name, OFFERED) is None


def test_a_name_that_fits_two_tools_is_not_resolved():
    assert resolve_tool("python search", ["python", "search"]) is None
    assert resolve_tool("note", ["Note", "NOTE"]) is None
    assert resolve_tool("web search", ["web_search", "WebSearch"]) is None


def test_an_exact_name_wins():
    assert resolve_tool("Note", ["Note", "note"]) == "Note"
    assert resolve_tool("search", ["search", "web_search"]) == "search"


def test_names_in_other_scripts():
    assert resolve_tool("`查询`", ["查询", "计算"]) == "查询"
    assert resolve_tool("Größe", ["größe"]) == "größe"
