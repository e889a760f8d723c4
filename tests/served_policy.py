"""What a served policy answers, and what the same weights say in a forward pass of transformers and PEFT."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from graph.policies.vllm_control import VLLMControl

T = TypeVar("T")
Call = tuple[list[int], list[int], list[float]]
"""Prompt ids, completion ids and log-probabilities of one sampled call."""


def sample(base_url: str, model: str, text: str, *, temperature: float, seed: int, max_tokens: int = 24) -> Call:
    """One planner-like call: sampled without constraint, its ids and log-probabilities as the server returns them."""

    async def ask() -> Call:
        async with httpx.AsyncClient(timeout=120) as http:
            call, _ = await sampled(
                http, base_url, model, text, temperature=temperature, seed=seed, max_tokens=max_tokens
            )
            return call

    return asyncio.run(ask())


async def sampled(
    http: httpx.AsyncClient,
    base_url: str,
    model: str,
    text: str,
    *,
    temperature: float,
    seed: int,
    max_tokens: int = 24,
) -> tuple[Call, int]:
    """As `sample`, with the number of its prompt's tokens that came from the server's prefix cache."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "system", "content": "Plan the next step."}, {"role": "user", "content": text}],
        "temperature": temperature,
        "seed": seed,
        "max_tokens": max_tokens,
        "logprobs": True,
        "return_token_ids": True,
    }
    response = await http.post(f"{base_url}/chat/completions", json=body)
    assert response.is_success, response.text
    answer = response.json()
    choice = answer["choices"][0]
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    details = answer["usage"]["prompt_tokens_details"] or {}
    return (answer["prompt_token_ids"], choice["token_ids"], logprobs), details.get("cached_tokens") or 0


def forward(model: Path, adapter: Path | None, calls: Sequence[Call], *, temperature: float) -> list[list[float]]:
    """The log-probabilities of the calls' completions under the base model, or under its adapter, in float32."""
    network: torch.nn.Module = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    if adapter is not None:
        network = PeftModel.from_pretrained(network, str(adapter))
    network.eval()
    found = []
    with torch.no_grad():
        for prompt_ids, completion_ids, _ in calls:
            logits = network(input_ids=torch.tensor([prompt_ids + completion_ids])).logits[0, len(prompt_ids) - 1 : -1]
            scores = (logits / temperature).log_softmax(-1)
            found.append(scores.gather(1, torch.tensor(completion_ids)[:, None])[:, 0].tolist())
    return found


def gap(calls: Sequence[Call], expected: Sequence[Sequence[float]]) -> float:
    """The largest difference between the calls' log-probabilities and the expected ones."""
    pairs = zip(calls, expected, strict=True)
    return max(abs(a - b) for (_, _, logprobs), row in pairs for a, b in zip(logprobs, row, strict=True))


def control(base_url: str, act: Callable[[VLLMControl], Awaitable[T]]) -> T:
    """What `act` returns of the server's control."""

    async def use() -> T:
        async with httpx.AsyncClient() as http:
            return await act(VLLMControl(base_url, http))

    return asyncio.run(use())
