"""The state machine: analyzer → planner → executor → tools → verifier → (planner | generator).

Every node is one step of LangGraph and one checkpoint; each tool call is a task of its own. A node that finds a budget
spent writes `stop`, and every router then leads to the generator: a run always ends with an answer or as a failure.
"""

from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import RetryPolicy, Send

from graph.context import Context
from graph.errors import ModelError
from graph.nodes.analyzer import analyzer
from graph.nodes.executor import executor
from graph.nodes.generator import generator
from graph.nodes.planner import planner
from graph.nodes.tools import ToolTask, tools
from graph.nodes.verifier import verifier
from graph.state import FlowInput, FlowState

Flow = CompiledStateGraph[FlowState, Context, FlowInput, FlowState]

_STEPS_PER_TURN = 4
_STEPS_AROUND = 4


def build_flow(checkpointer: BaseCheckpointSaver[Any] | None = None) -> Flow:
    """Compile the flow; without a checkpointer nothing is kept, and a run cannot be resumed."""
    again = RetryPolicy(max_attempts=3, retry_on=_may_succeed_again)
    graph = StateGraph(FlowState, context_schema=Context, input_schema=FlowInput)
    for name, node in (
        ("analyzer", analyzer),
        ("planner", planner),
        ("executor", executor),
        ("verifier", verifier),
        ("generator", generator),
    ):
        graph.add_node(name, node, retry_policy=again)
    graph.add_node("tools", tools, input_schema=ToolTask)
    graph.add_conditional_edges(START, _after_start)
    graph.add_conditional_edges("analyzer", _after_analyzer)
    graph.add_conditional_edges("planner", _after_planner)
    graph.add_conditional_edges("executor", _after_executor, ["planner", "generator", "tools"])
    graph.add_edge("tools", "verifier")
    graph.add_conditional_edges("verifier", _after_verifier)
    graph.add_edge("generator", END)
    return graph.compile(checkpointer=checkpointer, name="agentflow")


def recursion_limit(max_turns: int) -> int:
    """Return LangGraph's step limit for a run: never the thing that stops it."""
    return _STEPS_PER_TURN * max_turns + _STEPS_AROUND


def _may_succeed_again(error: Exception) -> bool:
    """Only a stream that broke off is tried again here: requests were retried by the client already."""
    return isinstance(error, ModelError) and error.transient


def _after_start(state: FlowState) -> Literal["analyzer", "generator"]:
    # A follow-up needs the analyzer even where no turn may be taken: it makes the question stand alone.
    return "analyzer" if state["setup"].max_turns or state["request"].history else "generator"


def _after_analyzer(state: FlowState) -> Literal["planner", "generator"]:
    return "generator" if state.get("stop") else "planner"


def _after_planner(state: FlowState) -> Literal["executor", "planner", "generator"]:
    if state.get("stop"):
        return "generator"
    return "executor" if state["turns"][-1].plan else "planner"


def _after_executor(state: FlowState) -> Literal["planner", "generator"] | list[Send]:
    if state.get("stop"):
        return "generator"
    turn = len(state["turns"]) - 1
    command = state["turns"][turn].command
    if command is None:
        return "planner"
    return [
        Send("tools", ToolTask(tool=command.tool, arguments=arguments, turn=turn, index=index))
        for index, arguments in enumerate(command.calls)
    ]


def _after_verifier(state: FlowState) -> Literal["planner", "generator"]:
    return "generator" if state.get("stop") else "planner"
