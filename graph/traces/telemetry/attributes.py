"""What each span says, in the words of OpenInference.

Its convention has no place for some of what a trace knows (policy, hashes, whether a result was kept): that goes into
`metadata`, a JSON object. Token ids, log-probabilities and artifacts of tools are left out: spans are for reading, and
training reads the traces themselves.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from openinference.semconv.trace import (
    MessageAttributes,
    OpenInferenceMimeTypeValues,
    OpenInferenceSpanKindValues,
    SpanAttributes,
)
from pydantic import BaseModel
from pydantic_core import to_json

from graph.records import Observation, Turn
from graph.trace import TracedCall, Trajectory

Attributes: TypeAlias = dict[str, str | bool | int | float | tuple[str, ...]]

_JSON = OpenInferenceMimeTypeValues.JSON.value


def run_attributes(trajectory: Trajectory) -> Attributes:
    """Return the attributes of the root span, but for what was said of the run."""
    metadata = {
        "id": trajectory.id,
        "source": trajectory.source,
        "group": trajectory.group,
        "parent": trajectory.parent,
        "parent_turns": trajectory.parent_turns,
        "dataset": trajectory.dataset,
        "reference": trajectory.reference,
        "stop": trajectory.stop,
        "reward": trajectory.reward,
        "reward_source": trajectory.reward_source,
        "policies": trajectory.policies or None,
        "tools": trajectory.tools or None,
        "config_hash": trajectory.config_hash,
        "versions": trajectory.versions or None,
        "seconds": trajectory.seconds,
        "redacted": trajectory.redacted or None,
    }
    return _known(
        OpenInferenceSpanKindValues.AGENT,
        {
            SpanAttributes.AGENT_NAME: "agentflow",
            SpanAttributes.INPUT_VALUE: trajectory.question,
            SpanAttributes.OUTPUT_VALUE: trajectory.answer,
            SpanAttributes.SESSION_ID: trajectory.conversation,
            SpanAttributes.TAG_TAGS: tuple(text(tag) for tag in trajectory.tags) or None,
        },
        metadata,
    )


def turn_attributes(turn: Turn, index: int) -> Attributes:
    """Return the attributes of a turn's span: its plan is its input, its verdict its output."""
    return _known(
        OpenInferenceSpanKindValues.CHAIN,
        {**_json_value("input", turn.plan), **_json_value("output", turn.verdict)},
        {"turn": index},
    )


def call_attributes(call: TracedCall, prompts: Mapping[str, str]) -> Attributes:
    """Return the attributes of a model call's span; `prompts` are the hashes of the roles' prompt files."""
    usage = call.usage
    counted = usage.prompt is not None and usage.completion is not None
    metadata = {
        "role": call.role,
        "turn": call.turn if call.turn >= 0 else None,
        "policy": call.policy,
        "prompt_hash": call.prompt_hash,
        "memory_chars": call.memory_chars,
        "first_token_seconds": call.first_token_seconds,
    }
    values: dict[str, Any] = {
        SpanAttributes.LLM_MODEL_NAME: call.model,
        SpanAttributes.LLM_INVOCATION_PARAMETERS: as_json(call.sampling) if call.sampling is not None else None,
        SpanAttributes.LLM_PROMPT_TEMPLATE_VERSION: prompts.get(call.role),
        SpanAttributes.LLM_FINISH_REASON: call.finish_reason,
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: usage.prompt,
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: usage.cached,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: usage.completion,
        SpanAttributes.LLM_TOKEN_COUNT_TOTAL: (usage.prompt or 0) + (usage.completion or 0) if counted else None,
        SpanAttributes.OUTPUT_VALUE: call.text,
    }
    sent = [(message["role"], message["content"]) for message in call.messages or ()]
    values |= _messages(SpanAttributes.LLM_INPUT_MESSAGES, sent)
    values |= _messages(SpanAttributes.LLM_OUTPUT_MESSAGES, [("assistant", call.text)])
    return _known(OpenInferenceSpanKindValues.LLM, values, metadata)


def tool_attributes(observation: Observation) -> Attributes:
    """Return the attributes of a tool call's span."""
    arguments = as_json(observation.arguments)
    metadata = {"status": observation.status, "cached": observation.cached, "repeated": observation.repeated}
    return _known(
        OpenInferenceSpanKindValues.TOOL,
        {
            SpanAttributes.TOOL_NAME: observation.tool,
            SpanAttributes.TOOL_PARAMETERS: arguments,
            SpanAttributes.INPUT_VALUE: arguments,
            SpanAttributes.INPUT_MIME_TYPE: _JSON,
            SpanAttributes.OUTPUT_VALUE: observation.content,
        },
        metadata,
    )


def as_json(value: Any) -> str:
    """Return `value` as JSON that every reader takes: what JSON has no number for is null."""
    try:
        return to_json(value, inf_nan_mode="null").decode()
    except ValueError:  # half of a character, which UTF-8 cannot hold
        return to_json(_whole(value), inf_nan_mode="null").decode()


def text(value: str) -> str:
    """Return `value` as UTF-8 can hold it: the exporter drops an attribute that has half a character in it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(str(key)): _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list | tuple) else value


def _messages(prefix: str, messages: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {}
    for index, (role, content) in enumerate(messages):
        found[f"{prefix}.{index}.{MessageAttributes.MESSAGE_ROLE}"] = role
        found[f"{prefix}.{index}.{MessageAttributes.MESSAGE_CONTENT}"] = content
    return found


def _json_value(side: str, record: BaseModel | None) -> dict[str, str]:
    if record is None:
        return {}
    return {f"{side}.value": as_json(record.model_dump()), f"{side}.mime_type": _JSON}


def _known(kind: OpenInferenceSpanKindValues, values: Mapping[str, Any], metadata: Mapping[str, Any]) -> Attributes:
    """Leave out what nobody knows."""
    known = {name: value for name, value in metadata.items() if value is not None}
    everything = {**values, SpanAttributes.OPENINFERENCE_SPAN_KIND: kind.value, SpanAttributes.METADATA: as_json(known)}
    return {
        name: text(value) if isinstance(value, str) else value
        for name, value in everything.items()
        if value is not None
    }
