"""What a running vLLM server tells about itself, found out without changing anything on it."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from graph.errors import ModelError
from graph.policies.vllm_control import VLLMControl
from graph.policies.weights import serving_version

LogprobsMode = Literal["processed_logprobs", "raw_logprobs", "logits"]

_NO_ADAPTER = "agentflow-doctor@v0"
"""A version that nobody has loaded, as versions of ours are named for a planner: unloading it changes nothing."""
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_SAMPLINGS: tuple[Mapping[str, float], ...] = (
    {"temperature": 1.0, **_PLAIN},
    {"temperature": 2.0, **_PLAIN},
    {},
)
_TOP = 5
_SAME = 0.02
"""Log-probabilities of one prompt may differ so much between two calls in bfloat16."""


@dataclass(frozen=True)
class VLLMFacts:
    """One server and one model on it. None: the server does not tell."""

    base: str | None
    """The base model's directory or name on the hub."""
    adapters: Mapping[str, str]
    """Paths of the loaded adapters by name."""
    runtime_adapters: bool | None
    """Whether adapters can be loaded while it runs."""
    logprobs: LogprobsMode | None
    """Which log-probabilities it returns; None also where the model answers nearly uniformly."""
    returns_ids: bool | None
    weights: str | None
    """Version of the full weights that it holds; None where the development endpoints are off."""
    own_defaults: bool | None
    """Whether calls that leave sampling out get defaults of the model's own."""
    speculative: bool | None
    cache_dtype: str | None
    quantisation: str | None


async def vllm_facts(base_url: str, model: str, http: httpx.AsyncClient, *, key: str | None) -> VLLMFacts:
    """Ask a server what matters for training. Three calls of one token are made.

    Raises:
        ModelError: it does not answer, or refuses.
    """
    control = VLLMControl(base_url, http, key=key)
    (listed, adapters), (metrics, weights), (one, two, default) = await asyncio.gather(
        asyncio.gather(control.base_models(), control.adapters()),
        asyncio.gather(_metrics(control), serving_version(control)),
        asyncio.gather(*(_ask(control, model, sampling) for sampling in _SAMPLINGS)),
    )
    base = listed.get(model) or next(iter(listed.values()), None)
    first = _top(one)
    mode = logprobs_mode(first, _top(two))
    return VLLMFacts(
        base=base,
        adapters=adapters,
        runtime_adapters=await _loads_adapters(control, metrics),
        logprobs=mode,
        returns_ids=bool(one.get("prompt_token_ids")) and bool(one["choices"][0].get("token_ids")),
        weights=weights,
        own_defaults=_differ(first, _top(default)) if mode == "processed_logprobs" else None,
        speculative=None if metrics is None else "vllm:spec_decode_num_drafts" in metrics,
        cache_dtype=_label(metrics, "cache_dtype"),
        quantisation=_quantisation(base),
    )


def logprobs_mode(at_one: Mapping[str, float], at_two: Mapping[str, float]) -> LogprobsMode | None:
    """Return what a server returns, from one prompt's next tokens at temperature 1 and at temperature 2.

    Processed log-probabilities lie half as far apart at temperature 2, raw ones equally far; logits may be positive.
    None where the tokens lie too close together to tell.
    """
    if any(value > 0 for value in (*at_one.values(), *at_two.values())):
        return "logits"
    common = sorted(at_one.keys() & at_two.keys(), key=lambda token: at_one[token])
    if len(common) < 2:
        return None
    lowest, highest = common[0], common[-1]
    gap_one, gap_two = at_one[highest] - at_one[lowest], at_two[highest] - at_two[lowest]
    if gap_one < 4 * _SAME:
        return None
    return "processed_logprobs" if gap_two < 0.75 * gap_one else "raw_logprobs"


def _differ(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return any(abs(value - other[token]) > _SAME for token, value in one.items() if token in other)


async def _ask(control: VLLMControl, model: str, sampling: Mapping[str, float]) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Plan."}],
        "max_tokens": 1,
        "seed": 0,
        "logprobs": True,
        "top_logprobs": _TOP,
        "return_token_ids": True,
        **sampling,
    }
    response = await control.request("POST", "/v1/chat/completions", body)
    try:
        answer: dict[str, Any] = response.json()
        answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelError(f"The server at {control.base_url} does not answer a call as vLLM does.") from error
    return answer


def _top(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the likeliest tokens' log-probabilities; by their bytes, as several tokens may read alike."""
    tokens = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {json.dumps([token["token"], token.get("bytes")]): float(token["logprob"]) for token in tokens}


async def _metrics(control: VLLMControl) -> str | None:
    response = await control.request("GET", "/metrics", absent=True)
    return response.text if response.is_success else None


async def _loads_adapters(control: VLLMControl, metrics: str | None) -> bool | None:
    """Whether the endpoint is there, which a 404 of its own wording tells, and LoRA is on, which the metrics tell."""
    body = {"lora_name": _NO_ADAPTER}
    response = await control.request("POST", "/v1/unload_lora_adapter", body, absent=True)
    if _NO_ADAPTER not in response.text:
        return False
    return None if metrics is None else "vllm:lora_requests_info" in metrics


def _label(metrics: str | None, name: str) -> str | None:
    found = re.search(rf'^vllm:cache_config_info\{{.*\b{name}="([^"]*)"', metrics or "", re.MULTILINE)
    return found[1] if found else None


def _quantisation(base: str | None) -> str | None:
    """Return how a model's weights are quantised, where its directory can be read from here."""
    try:
        config = json.loads((Path(base or "") / "config.json").read_text(encoding="utf-8"))
        found = config.get("quantization_config") or {}
        return str(found.get("quant_method") or "unknown method") if found else None
    except (OSError, ValueError, AttributeError):
        return None
