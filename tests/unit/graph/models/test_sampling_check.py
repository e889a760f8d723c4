import pytest

from graph.config import ModelConfig
from graph.models.sampling_check import sampling_faults, server_faults
from graph.models.vllm_facts import VLLMFacts

SOUND = VLLMFacts(
    base="/models/base",
    adapters={},
    runtime_adapters=True,
    logprobs="processed_logprobs",
    returns_ids=True,
    weights=None,
    own_defaults=False,
    speculative=False,
    cache_dtype="auto",
    quantisation=None,
)


def planner(**changes) -> ModelConfig:
    return ModelConfig(**{"temperature": 0.7, **changes})


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0, "frequency_penalty": 0},
        {"top_k": -1, "stop": None},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"stop": [], "stop_token_ids": [], "ignore_eos": False, "bad_words": [], "logit_bias": {}},
        {"id_slot": 2, "return_progress": True, "cache_prompt": True},
    ],
)
def test_the_models_own_distribution_is_no_fault(extra):
    assert sampling_faults(planner(extra=extra)) == []
    assert sampling_faults(planner(structured="off", temperature=1.3)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"structured": "json_schema"}, "models.planner.structured is json_schema: "),
        ({"top_p": 0.95}, "models.planner.top_p is 0.95: "),
        ({"temperature": 0}, "models.planner.temperature is 0: "),
        ({"seed": 7}, "models.planner.seed is 7: "),
        ({"extra": {"top_k": 20}}, "models.planner.extra.top_k is 20: "),
        ({"extra": {"min_p": 0.05}}, "models.planner.extra.min_p is 0.05: "),
        ({"extra": {"repetition_penalty": 1.05}}, "models.planner.extra.repetition_penalty is 1.05: "),
        ({"extra": {"presence_penalty": -1}}, "models.planner.extra.presence_penalty is -1: "),
        ({"extra": {"frequency_penalty": 0.2}}, "models.planner.extra.frequency_penalty is 0.2: "),
        ({"extra": {"min_tokens": 4}}, "models.planner.extra.min_tokens is 4: "),
        ({"extra": {"logit_bias": {"5": 1}}}, "models.planner.extra.logit_bias constrains"),
        ({"extra": {"bad_words": ["x"]}}, "models.planner.extra.bad_words constrains"),
        ({"extra": {"guided_json": {}}}, "models.planner.extra.guided_json constrains"),
        ({"extra": {"structured_outputs": {"regex": "a"}}}, "models.planner.extra.structured_outputs constrains"),
        ({"extra": {"response_format": {"type": "json_object"}}}, "models.planner.extra.response_format constrains"),
        ({"extra": {"stop": ["x"]}}, "models.planner.extra.stop changes"),
        ({"extra": {"ignore_eos": True}}, "models.planner.extra.ignore_eos changes"),
        ({"extra": {"typical_p": 0.5}}, "models.planner.extra.typical_p is not known to leave alone what is sampled"),
        ({"extra": {"repeat_penalty": 1.1}}, "models.planner.extra.repeat_penalty is not known"),
        ({"extra": {"use_beam_search": True}}, "models.planner.extra.use_beam_search is not known"),
        ({"extra": {"extra_body": {"top_k": 5}}}, "models.planner.extra.extra_body is not known"),
        ({"extra": {"top_p": 0.5}}, "models.planner.extra.top_p hides the setting models.planner.top_p; use that."),
    ],
)
def test_each_setting_that_bends_it_is_one(changes, said):
    (fault,) = sampling_faults(planner(**changes))
    assert fault.startswith(said)
    assert fault.endswith(".")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"logprobs": "raw_logprobs"}, "raw_logprobs"),
        ({"logprobs": "logits"}, "logits"),
        ({"returns_ids": False}, "no token ids"),
        ({"speculative": True}, "speculatively"),
        ({"cache_dtype": "fp8_e4m3"}, "fp8_e4m3"),
        ({"quantisation": "awq"}, "quantised (awq)"),
        ({"runtime_adapters": False}, "--enable-lora"),
    ],
)
def test_each_property_of_a_server_that_bends_it_is_one(changes, said):
    from dataclasses import replace

    assert server_faults(SOUND) == []
    assert server_faults(replace(SOUND, logprobs=None, runtime_adapters=None, cache_dtype=None)) == []
    (fault,) = server_faults(replace(SOUND, **changes))
    assert said in fault
