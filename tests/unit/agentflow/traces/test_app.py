"""`agentflow traces list` and `export`, and `agentflow feedback`, on runs of the real flow."""

import json
import subprocess

import pytest

from tests.command import Workplace
from tests.fakes import ScriptedServer, answer, plan
from tests.flows import scripts


@pytest.fixture
def place(tmp_path):
    with ScriptedServer(scripts(), owned_by="vllm", repeat=True) as server:
        yield Workplace(tmp_path, server.url)


def ask(place: Workplace, question: str, *options: str) -> str:
    return str(json.loads(place.call("ask", question, "--json", *options).splitlines()[-1])["id"])


def exported(place: Workplace) -> list[dict]:
    return [json.loads(line) for line in place.run("traces", "export", "-").stdout.splitlines()]


def listed(place: Workplace, *options: str) -> list[dict]:
    return [json.loads(line) for line in place.call("traces", "list", "--json", *options).splitlines()]


def test_filters_choose_the_same_from_database_and_file(place):
    first = ask(place, "What is 40 + 2?", "--tag", "good one")
    second = ask(place, "What is 1 + 2?")
    place.call("feedback", first, "--good")
    place.call("traces", "export", "all.jsonl")
    for options, expected in [
        ((), [second, first]),
        (("--tag", "good one"), [first]),
        (("--tag", "good"), []),
        (("--tool", "count_calls"), [second, first]),
        (("--tool", "python"), []),
        (("--policy", "test-model"), [second, first]),
        (("--policy", "planner@v1"), []),
        (("--stop", "VERIFIED"), [second, first]),
        (("--stop", "FAILED"), []),
        (("--source", "ask"), [second, first]),
        (("--source", "chat"), []),
        (("--scored",), [first]),
        (("--unscored",), [second]),
        (("--min-reward", "1"), [first]),
        (("--max-reward", "0.5"), []),
        (("--since", "1h"), [second, first]),
        (("--until", "1h"), []),
        (("--since", "2999-01-01"), []),
        (("--text", "1 + "), [second]),
        (("--limit", "1"), [second]),
        (("--dataset", "starter"), []),
        (("--group", "g"), []),
    ]:
        assert [row["id"] for row in listed(place, *options)] == expected, options
        assert [row["id"] for row in listed(place, "--file", "all.jsonl", *options)] == expected, options
    conversation = listed(place)[1]["conversation"]
    for name in (conversation, first, first[:13]):
        assert [row["id"] for row in listed(place, "--conversation", name)] == [first]


def test_the_lines_of_a_list(place):
    run = ask(place, "What is 40 + 2?")
    place.call("feedback", run, "--bad")
    cells = place.call("traces", "list").rstrip("\n").split("\t")
    assert [*cells[:1], *cells[2:]] == [
        run[:13], "ask", "", "test-model", "VERIFIED", "1", "0", "What is 40 + 2?", "42"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", "all.jsonl"), "There are no runs yet"),
        (("list", "--since", "yesterday"), "--since 'yesterday' is no time: write 2026-11-30"),
        (("list", "--file", "none.jsonl"), "There is no none.jsonl"),
        (("list", "--conversation", "x", "--file", "agentflow.toml"), "Skipped agentflow.toml, line 1"),
        (("export", "a.csv"), "a.csv is neither a .jsonl file nor a folder"),
        (("export", "a.jsonl", "--append", "--overwrite"), "exclude each other"),
        (("export", "folder", "--append"), "--append adds to a file of JSON lines"),
        (("export", "-", "--format", "parquet"), "Parquet is written to a folder"),
        (("export", "agentflow.toml", "--format", "jsonl"), "agentflow.toml is there already"),
        (("export", "a.jsonl", "--redact-pattern", "x"), "must look like ORDER="),
    ],
)
def test_bad_input_is_one_sentence(arguments, said, place):
    done = place.run("traces", *arguments)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if "Skipped" in said else 2)


def test_an_export_appears_whole_and_is_never_replaced_unasked(place):
    first = ask(place, "What is 40 + 2?")
    place.call("traces", "export", "out/all.jsonl")
    file = place.directory / "out" / "all.jsonl"
    before = file.read_bytes()
    second = ask(place, "What is 1 + 2?")
    assert place.run("traces", "export", "out/all.jsonl").returncode == 2
    assert file.read_bytes() == before
    place.call("traces", "export", "out/all.jsonl", "--append")
    assert file.read_bytes().startswith(before)
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [first, second]
    whole = file.read_bytes()
    place.call("traces", "export", "out/all.jsonl", "--append")
    assert file.read_bytes() == whole
    place.call("traces", "export", "out/all.jsonl", "--overwrite", "--text", "1 + ")
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [second]
    assert [path.name for path in file.parent.iterdir()] == ["all.jsonl"]
    assert [json.loads(line)["id"] for line in place.run("traces", "export", "-").stdout.splitlines()] == [
        first,
        second,
    ]


def test_nothing_chosen_writes_nothing(place):
    ask(place, "What is 40 + 2?")
    done = place.run("traces", "export", "none.jsonl", "--tag", "no such tag")
    assert (done.returncode, done.stderr) == (0, "There are no such trajectories; nothing was written.\n")
    assert not (place.directory / "none.jsonl").exists()


def test_damaged_lines_are_told_and_left_out(place):
    run = ask(place, "What is 40 + 2?")
    place.call("traces", "export", "all.jsonl")
    file = place.directory / "all.jsonl"
    line = file.read_text()
    file.write_text("[]\n" + line.replace('"schema_version":1', '"schema_version":2') + "\n" + line + line[:-100])
    done = place.run("traces", "list", "--json", "-f", "all.jsonl")
    assert [json.loads(row)["id"] for row in done.stdout.splitlines()] == [run]
    assert done.stderr.splitlines() == [
        "Skipped all.jsonl, line 1: Input should be an object.",
        "Skipped all.jsonl, line 2: it is of schema version 2, and this release reads version 1: use the release that "
        "wrote it.",
        "Skipped all.jsonl, line 5: the file ends in the middle of this line; it is left out.",
    ]


def test_feedback_is_exported_as_a_persons_reward(place):
    run = ask(place, "What is 40 + 2?")
    place.call("feedback", run[:13], "--good", "--note", "short")
    place.call("feedback", run, "--bad", "--answer", " 43 ")
    said = json.loads(place.call("feedback", run, "--json"))["feedback"]
    assert [(remark["verdict"], remark["answer"], remark["note"]) for remark in said] == [
        ("good", None, "short"),
        ("bad", "43", None),
    ]
    found = exported(place)[0]
    assert (found["reward"], found["reward_source"], found["reference"]) == (0.0, "human", ["43"])
    assert found["feedback"] == said
    assert "right answer: 43" in place.call("feedback", run)
    place.call("feedback", run, "--withdraw")
    found = exported(place)[0]
    assert (found["reward"], found["reward_source"], found["reference"], found["feedback"]) == (None, None, None, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("0000", "--good"), "There is no run '0000'"),
        (("RUN", "--good", "--bad"), "exclude each other"),
        (("RUN", "--withdraw", "--bad"), "--withdraw goes alone"),
        (("RUN", "--answer", " "), "The answer is empty"),
        (("RUN", "--note", "x" * 10_001), "has 10,001 characters"),
    ],
)
def test_feedback_that_cannot_be_kept(arguments, said, place):
    run = ask(place, "What is 40 + 2?")
    done = place.run("feedback", *(run if part == "RUN" else part for part in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert json.loads(place.call("feedback", run, "--json"))["feedback"] == []


def test_a_failed_run_gets_no_reward(tmp_path):
    with ScriptedServer(scripts(verifier=[{"status": 400}])) as server:
        place = Workplace(tmp_path, server.url)
        assert place.run("ask", "What is 40 + 2?").returncode == 2
    run = listed(place)[0]["id"]
    assert "ended FAILED: it gets no reward" in place.call("feedback", run, "--bad")
    found = exported(place)[0]
    assert (found["stop"], found["reward"], len(found["feedback"])) == ("FAILED", None, 1)


def test_a_fork_is_a_trajectory_of_its_own(tmp_path):
    replies = scripts(planner=[plan(), plan()], generator=[answer("42"), answer("43")])
    with ScriptedServer(replies, repeat=True) as server:
        place = Workplace(tmp_path, server.url)
        first = ask(place, "What is 40 + 2?")
        place.call("runs", "fork", first, "--turn", "1", "--sub-goal", "Another way.")
    parent, fork = exported(place)
    assert (parent["id"], parent["parent"], parent["parent_turns"]) == (first, None, None)
    assert (fork["parent"], fork["parent_turns"]) == (first, 0)
    assert fork["id"] != first
    assert fork["turns"][0]["plan"]["sub_goal"] == "Another way."


def test_what_came_from_a_file_is_shown_but_not_resumed_over(tmp_path):
    with ScriptedServer(scripts(verifier=[{"status": 400}])) as server:
        place = Workplace(tmp_path, server.url)
        assert place.run("ask", "What is 40 + 2?").returncode == 2
        run = listed(place)[0]["id"]
        place.call("feedback", run, "--note", "It broke.")
        place.call("traces", "export", "all.jsonl")
        before = exported(place)
        place.write_config(server.url, '[storage]\nurl = "other.db"\n')
        place.call("traces", "import", "all.jsonl")
        assert exported(place) == before
        assert json.loads(place.call("runs", "show", run, "--json")) == before[0]
        for command_ in (("resume", run), ("fork", run, "--turn", "1")):
            done = place.run("runs", *command_)
            assert done.returncode == 2
            assert "came from a file" in done.stderr or "has no turns to fork from" in done.stderr
        assert exported(place) == before


def test_standard_output_is_utf_8_whatever_the_terminal_is(place):
    ask(place, "What is 40 + 2 in 日本語?")
    done = subprocess.run(
        place.command("traces", "export", "-"),
        capture_output=True,
        cwd=place.directory,
        env=place.environment(PYTHONIOENCODING="latin-1"),
        check=True,
    )
    assert json.loads(done.stdout)["question"] == "What is 40 + 2 in 日本語?"
