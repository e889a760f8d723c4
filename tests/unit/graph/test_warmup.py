from graph.prompt import hash_messages
from graph.records import Plan, Turn
from graph.rendering import messages_for
from graph.state import FlowState, Request, Setup, ToolDescription
from graph.warmup import role_prefixes

PYTHON = ToolDescription(name="python", description="Runs code.", code_argument="code")
GENERATE = ToolDescription(name="generate", description="Answers.")


def test_prefixes_differ_from_real_calls_only_in_the_last_message():
    setup = Setup(tools=(GENERATE, PYTHON))
    turn = Turn(plan=Plan(sub_goal="Add 1 and 2", tool="python"))
    state: FlowState = {"request": Request(question="What is 1 + 2?"), "setup": setup, "turns": [turn]}
    prefixes = role_prefixes(setup)
    assert list(prefixes) == ["analyzer", "planner", "executor", "verifier", "generator", "generate"]
    for role in ("analyzer", "planner", "executor", "verifier", "generator"):
        real = messages_for(role, state, 0)
        assert hash_messages(prefixes[role][:-1]) == hash_messages(real[:-1])
        assert prefixes[role][-1] != real[-1]


def test_roles_that_have_nothing_to_do_are_left_out():
    assert list(role_prefixes(Setup())) == ["generator"]
    assert "generate" not in role_prefixes(Setup(tools=(PYTHON,)))
