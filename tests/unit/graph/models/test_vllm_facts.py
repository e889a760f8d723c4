"""What a server's answers tell. That a real vLLM answers so is asserted in tests/integration/test_doctor_vllm.py."""

import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph.errors import ModelError
from graph.models.vllm_facts import logprobs_mode, vllm_facts
from tests.policy_server import PolicyServer

LOGITS = {"a": 3.0, "b": 1.0, "c": 0.0}


def logprobs(temperature: float) -> dict[str, float]:
    total = math.log(sum(math.exp(value / temperature) for value in LOGITS.values()))
    return {token: value / temperature - total for token, value in LOGITS.items()}


def test_the_kind_of_log_probabilities_is_told_from_two_temperatures():
    assert logprobs_mode(logprobs(1), logprobs(2)) == "processed_logprobs"
    assert logprobs_mode(logprobs(1), logprobs(1)) == "raw_logprobs"
    assert logprobs_mode(LOGITS, LOGITS) == "logits"
    assert logprobs_mode({"a": -1.0, "b": -1.01}, {"a": -1.0, "b": -1.0}) is None
    assert logprobs_mode({"a": -1.0}, {"a": -1.0, "b": -3.0}) is None
    assert logprobs_mode({}, {}) is None


class Server(PolicyServer):
    """Answers calls of one token and the metrics as vLLM does, with these kinds of log-probabilities."""

    def __init__(self, mode: str = "processed", *, metrics: str | None = "", **options: Any) -> None:
        super().__init__({}, **options)
        self.mode, self.metrics, self.asked = mode, metrics, []

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
        if path == "/metrics" and self.metrics is not None:
            return 200, self.metrics.encode()
        if path == "/v1/unload_lora_adapter" and body:
            return 404, {"error": {"message": f"The lora adapter '{body['lora_name']}' cannot be found."}}
        if path == "/v1/chat/completions" and body:
            self.asked.append(body)
            return 200, self.answer(body)
        return super().endpoint(path, body)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        found = logprobs(1 if self.mode == "raw" else body.get("temperature", 0.5))
        top = [{"token": token, "logprob": value, "bytes": None} for token, value in found.items()]
        choice = {"token_ids": [1], "logprobs": {"content": [{"token": "a", "logprob": -1, "top_logprobs": top}]}}
        return {"prompt_token_ids": [1, 2], "choices": [choice]}


async def facts(server: Server, key: str | None = None):
    with server:
        async with httpx.AsyncClient() as http:
            return await vllm_facts(server.url, "planner", http, key=key)


LORA = "vllm:lora_requests_info 1\n"


async def test_a_server_as_we_start_it():
    server = Server(metrics=LORA + 'vllm:cache_config_info{block_size="16",cache_dtype="auto"} 1\n')
    server.adapters["planner@v3"] = "/policies/planner@v3"
    found = await facts(server)
    assert (found.base, dict(found.adapters)) == ("/models/base", {"planner@v3": "/policies/planner@v3"})
    assert (found.runtime_adapters, found.logprobs, found.returns_ids) == (True, "processed_logprobs", True)
    assert (found.speculative, found.cache_dtype, found.weights, found.own_defaults) == (False, "auto", None, True)
    assert [body["max_tokens"] for body in server.asked] == [1, 1, 1]
    assert server.loads == []
    assert server.adapters


async def test_another():
    metrics = 'vllm:cache_config_info{cache_dtype="fp8"} 1\nvllm:spec_decode_num_drafts_total 0\n'
    found = await facts(Server("raw", metrics=metrics, weights="planner@v2"))
    assert (found.runtime_adapters, found.logprobs, found.own_defaults) == (False, "raw_logprobs", None)
    assert (found.speculative, found.cache_dtype, found.weights) == (True, "fp8", "planner@v2")


async def test_metrics_that_are_not_shown_leave_it_open():
    found = await facts(Server(metrics=None))
    assert (found.runtime_adapters, found.speculative, found.cache_dtype) == (None, None, None)


async def test_quantised_weights_are_read_from_the_models_directory(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "awq"}}))

    class Quantised(Server):
        def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
            status_and_body = super().endpoint(path, body)
            if path == "/v1/models" and status_and_body:
                status_and_body[1]["data"][0]["root"] = str(tmp_path)
            return status_and_body

    assert (await facts(Quantised())).quantisation == "awq"


async def test_an_answer_of_another_kind_is_an_error():
    class Odd(Server):
        def answer(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"choices": []}

    with pytest.raises(ModelError, match="does not answer a call as vLLM does"):
        await facts(Odd())
