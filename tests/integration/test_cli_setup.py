"""`agentflow setup` and `agentflow engine` on the real program."""

import re
from pathlib import Path

import pytest

from graph.engine import LocalSettings
from tests.command import Workplace, events


def test_setup_without_a_network_says_so_and_leaves_nothing_half_written(tmp_path: Path):
    place = Workplace(tmp_path, "http://127.0.0.1:9/v1")
    offline = {"HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"}
    done = place.run("setup", "--model", "0.5b", env=offline)
    assert done.returncode == 2, done.stderr
    assert re.search(r"could not be fetched \(.*\): check the network and run `agentflow setup` again", done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not [file.name for file in (tmp_path / "cache").rglob("*.gguf")]


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_the_first_question_after_setup_starts_warm(embedded: LocalSettings, tmp_path: Path):
    """`embedded` has put the small model into the cache directory and stops the engine in the end."""
    place = Workplace(tmp_path, "")
    (tmp_path / "agentflow.toml").write_text(
        '[local]\nmodel = "0.5b"\nthreads = 1\ncontext_per_slot = 2048\n[tools]\nenabled = ["generate"]\n'
        "[budgets]\nmax_turns = 1\n"
    )
    first = place.call("setup", "--no-corpus")
    assert re.search(r"It has read [\d,]+ tokens", first)
    assert "Qwen2.5-Coder-0.5B-Instruct by the Qwen team" in first
    assert "It had read them before." in place.call("setup", "--no-corpus")
    assert re.search(r"0\.5b.* at http://127\.0\.0\.1:\d+/v1", place.call("engine", "status"))
    assert place.call("engine", "stop") == "Stopped.\n"
    told = events(place.call("ask", "What is a leap year?", "--json"))
    usage = {event["role"]: event["usage"] for event in told if event["event"] == "call"}
    assert {"analyzer", "planner", "generator"} <= usage.keys()
    for role in ("analyzer", "planner"):
        assert usage[role]["cached"] > usage[role]["prompt"] / 2, usage
