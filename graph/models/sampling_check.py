"""What in the planner's settings or on its server would make training wrong.

Flow-GRPO needs the ids that were sampled and their log-probabilities under the distribution that they were sampled
from, which the trainer computes again: the model's own, at a temperature. Whatever bends or cuts that distribution
makes the two differ without anything failing.
"""

from collections.abc import Mapping
from typing import Any

from graph.config import ModelConfig
from graph.models.vllm_facts import VLLMFacts

_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_k": (0, -1),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "min_tokens": (0,),
    "stop": ([],),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "ignore_eos": (False,),
    "bad_words": ([],),
    "logit_bias": ({},),
}
"""Fields of a request that bend or cut what is sampled, and with which values they do not."""
_CONSTRAINTS = ("response_format", "structured_outputs", "logit_bias", "bad_words", "allowed_token_ids", "tool_choice")
_CUTS = ("stop", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "truncate_prompt_tokens")
_OWN_SETTINGS = ("temperature", "top_p", "max_tokens", "seed")
"""Settings of a role: the same field in `extra` would win, and calls would record another value than was sent."""
_HARMLESS = (
    *("add_generation_prompt", "add_special_tokens", "chat_template", "chat_template_kwargs", "documents"),
    *("logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "top_logprobs"),
    *("skip_special_tokens", "spaces_between_special_tokens", "stream", "stream_options", "include_reasoning"),
    *("cache_prompt", "cache_salt", "id_slot", "metadata", "priority", "request_id", "return_progress"),
    *("reasoning_effort", "service_tier", "store", "timings_per_token", "user"),
)
"""Fields that say what the prompt is, what comes back and how it is served. Every other may bend what is sampled:
servers know some fifty that do."""


def sampling_faults(config: ModelConfig) -> list[str]:
    """Return a sentence for each setting of the planner that would make training wrong, with what to do about it."""
    faults = []
    if config.structured == "json_schema":
        faults.append(
            "models.planner.structured is json_schema: constrained tokens are not sampled from the policy; "
            "set it to auto or off."
        )
    if config.top_p < 1:
        faults.append(f"models.planner.top_p is {config.top_p}: the policy's tail is cut off; set it to 1.")
    if config.temperature == 0:
        faults.append("models.planner.temperature is 0: every rollout of a question would be the same; set it above 0.")
    if config.seed is not None:
        faults.append(
            f"models.planner.seed is {config.seed}: every rollout of a question would be the same; leave it out."
        )
    return faults + [
        f"models.planner.extra.{name} {why}"
        for name, value in config.extra.items()
        if (why := _extra_fault(name, value))
    ]


def bending_fields(sampling: Mapping[str, Any]) -> list[str]:
    """Return the fields, of what was asked of the server in a recorded call, that bend or cut what it sampled.

    Other programs may write such a field beside `extra` instead of in it.
    """
    own = {*_OWN_SETTINGS, "constrained", "extra"}
    beside = [(name, value) for name, value in sampling.items() if name not in own]
    bent = [] if sampling.get("top_p") in (None, 1) else ["top_p"]
    extra = sampling.get("extra") or {}
    found = [*beside, *(extra.items() if isinstance(extra, Mapping) else [("extra", extra)])]
    return bent + [name for name, value in found if _extra_fault(name, value)]


def _extra_fault(name: str, value: object) -> str | None:
    if value is None or value in _NEUTRAL.get(name, ()) or name in _HARMLESS:
        return None
    if name in _CONSTRAINTS or name.startswith("guided_"):
        return "constrains what is sampled; leave it out."
    if name in _CUTS:
        return "changes where a call begins or ends; leave it out."
    if name in _OWN_SETTINGS:
        return f"hides the setting models.planner.{name}; use that."
    if name in _NEUTRAL:
        return f"is {value}: it bends the distribution that is sampled; leave it out."
    return "is not known to leave alone what is sampled; leave it out."


def server_faults(facts: VLLMFacts) -> list[str]:
    """Return a sentence for each property of the planner's server that would make training wrong."""
    faults = []
    if facts.logprobs not in {None, "processed_logprobs"}:
        faults.append(
            f"the planner's server returns {facts.logprobs}, which leave the temperature out: start it with "
            "`agentflow serve`, or with --logprobs-mode processed_logprobs."
        )
    if facts.returns_ids is False:
        faults.append("the planner's server returned no token ids although it is vLLM: use vLLM 0.22 to 0.31.")
    if facts.speculative:
        faults.append(
            "the planner's server decodes speculatively, whose log-probabilities are not checked: start it without."
        )
    if facts.cache_dtype and facts.cache_dtype.startswith("fp8"):
        faults.append(
            f"the planner's server keeps its cache in {facts.cache_dtype}: log-probabilities differ from the "
            "trainer's; start it with --kv-cache-dtype auto."
        )
    if facts.quantisation:
        faults.append(
            f"the planner's weights are quantised ({facts.quantisation}): log-probabilities differ from the "
            "trainer's; serve the weights that are trained."
        )
    if facts.runtime_adapters is False:
        faults.append(
            "the planner's server loads no adapters while it runs: start it with `agentflow serve`, or with "
            "--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1."
        )
    return faults
