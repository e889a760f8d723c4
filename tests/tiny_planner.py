"""A tiny model that has been taught to plan, and a world in which its choice of tool decides about the reward.

The planner is real and samples freely: it writes one of two plans, or something malformed. The tool `python` computes
the answer, the tool `generate` gets it wrong. The other roles answer from a script that follows their prompts.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from graph.config import FlowConfig
from graph.prompt import Message
from graph.records import Command, Observation, Plan, QueryAnalysis, Turn
from graph.rendering import messages_for
from graph.runner import open_runner
from graph.state import FlowState, Request
from tests.fakes import ScriptedServer
from tests.tiny_model import build_tiny_model

QUESTIONS = ("What is 6 * 7?", "What is six times seven?")
REFERENCE = "42"
TEMPERATURE = 0.7

_PLANS = {
    tool: json.dumps({"justification": "A product.", "context": "6 and 7", "sub_goal": "Compute 6 * 7", "tool": tool})
    for tool in ("python", "generate")
}
_QUERY = {"query": "What is 6 * 7?"}
_GENERATED = "It is 41."
_ANALYSIS = json.dumps({"summary": "A product", "skills": "arithmetic", "tools": [], "considerations": ""})


def world() -> ScriptedServer:
    """The server of every role but the planner."""
    return ScriptedServer(
        {
            "analyzer": [_ANALYSIS],
            "executor": [_command],
            "verifier": [_verdict],
            "generator": [_answer],
            "generate": [_GENERATED],
        },
        repeat=True,
    )


def config(
    world_url: str,
    *,
    planner: str,
    planner_url: str,
    max_turns: int = 2,
    structured: str = "off",
    policies: Path | None = None,
    use: str = "promoted",
) -> FlowConfig:
    """The flow with `planner` at the vLLM server and every other role in the world.

    `policies` is the directory of a registry, whose promoted version answers unless `use` says otherwise.
    """
    return FlowConfig.model_validate(
        {
            "models": {
                "default": {"model": "test-model", "base_url": world_url},
                "planner": {
                    "model": planner,
                    "base_url": planner_url,
                    "temperature": TEMPERATURE,
                    "max_tokens": 96,
                    "structured": structured,
                },
            },
            "tools": {"enabled": ["python", "generate"], "python": {"sandbox": "rlimits-only"}},
            "budgets": {"max_turns": max_turns},
            "policies": {"directory": str(policies), "use": use} if policies else {"use": "base"},
        }
    )


def build_tiny_planner(directory: Path) -> Path:
    """Write a tiny model that plans for `QUESTIONS`, one time in three with the right tool."""
    build_tiny_model(directory)
    _teach(directory, asyncio.run(_prompts()))
    return directory


async def _prompts() -> list[list[Message]]:
    """The planner's real prompts: of each question's first turn, and of the second after the wrong tool."""
    with world() as server:
        flow = config(server.url, planner="test-model", planner_url=server.url)
        async with open_runner(flow) as runner:
            setup = runner.setup()
    wrong = Turn(
        plan=Plan.model_validate_json(_PLANS["generate"]),
        command=Command(tool="generate", calls=(_QUERY,)),
        observations=(Observation(tool="generate", arguments=_QUERY, status="ok", content=_GENERATED),),
    )
    analysis = QueryAnalysis.model_validate_json(_ANALYSIS)
    prompts = []
    for question in QUESTIONS:
        state: FlowState = {"request": Request(question=question), "setup": setup, "analysis": [analysis]}
        prompts += [messages_for("planner", state, 0), messages_for("planner", {**state, "turns": [wrong]}, 1)]
    return prompts


def _teach(directory: Path, prompts: Sequence[list[Message]], *, steps: int = 160) -> None:
    """Fine-tune all weights on the plans, one time in three with `python`; a prompt's beginning is cut at random."""
    random.seed(0)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        messages = [{**message} for message in prompts[step % len(prompts)]]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        prompt = prompt[random.choice([0, random.randrange(len(prompt) - 50)]) :]
        plan = _PLANS["python" if step % 3 == 0 else "generate"]
        target = tokenizer(plan, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        labels = torch.tensor([[-100] * len(prompt) + target])
        model(input_ids=torch.tensor([prompt + target]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(directory)


def _command(request: dict[str, Any]) -> str:
    if "generate" in request["messages"][0]["content"]:
        return json.dumps({"calls": [_QUERY]})
    return "```python\nprint(6 * 7)\n```"


def _verdict(request: dict[str, Any]) -> str:
    return json.dumps({"analysis": "See the memory.", "stop": REFERENCE in request["messages"][-1]["content"]})


def _answer(request: dict[str, Any]) -> str:
    found = REFERENCE in request["messages"][-1]["content"]
    return json.dumps({"solution": "As the memory says.", "answer": REFERENCE if found else "41"})
