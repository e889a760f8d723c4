"""Reads the files of the original AgentFlow: what its evaluation writes (`output_<pid>.json`), and its training
(`rollout_<id>.json`, which holds the same as `total_result`, with the answer, its reference and its reward)."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from graph.plain import plain_text
from graph.prompt import Message
from graph.records import QueryAnalysis, StopReason, Turn
from graph.trace import TracedCall, Trajectory
from graph.traces.foreign.original_output import read_analysis, read_failure
from graph.traces.foreign.original_turn import Step, read_turn
from graph.traces.foreign.record import LeftOut, UnreadableRecordError, mint, origin_tags
from graph.traces.foreign.values import first_of, mapping_of, number_of, text_of, texts_of, unix_time

_PARTS = frozenset({"query_analysis", "memory", "step_count", "final_output", "direct_output"})
_NUMBERED = re.compile(r"(?:action_predictor|tool_commander|verifier)_(\d{1,6})_response|tool_result_(\d{1,6})")
_ACTION = re.compile(r"Action Step (\d{1,6})")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_ROLES = {"action_predictor": "planner", "tool_commander": "executor", "verifier": "verifier"}
_REWARD_SOURCE = "judge"
"""Its rewards are the verdicts of a language model."""


def is_original(value: Any) -> bool:
    """Whether a JSON value has the shape of one of its files."""
    if not isinstance(value, Mapping):
        return False
    if "total_result" in value or {"groundtruth", "answer_extracted"} <= value.keys():
        return True
    names = [name for name in value if isinstance(name, str)]
    return "query" in value and (not _PARTS.isdisjoint(names) or any(map(_NUMBERED.fullmatch, names)))


def read_original(record: Mapping[str, Any], path: Path, left_out: LeftOut) -> Trajectory:
    """Return the run that a file holds.

    Args:
        record: the file's object.
        path: the file; rollouts of one step lie in one folder.
        left_out: counts what is left out.

    Raises:
        UnreadableRecordError: it holds no question.
    """
    is_rollout = "total_result" in record or "groundtruth" in record
    result = mapping_of(record.get("total_result")) if is_rollout else record
    question = text_of(first_of(record, ("prompt", "question", "query"))) or text_of(result.get("query"))
    if question is None:
        raise UnreadableRecordError("it holds no question.")
    actions = _actions(result)
    numbers = list(_numbers(result, actions, left_out))
    turns = tuple(read_turn(_step(result, actions.get(number, {}), number)) for number in numbers)
    error = _failure(record, result)
    answer, solution = _outputs(record, result)
    reference = texts_of(record.get("groundtruth") if is_rollout else record.get("answer"))
    reward = number_of(record.get("reward")) if is_rollout else None
    if reward is not None and error is not None:
        left_out["reward of a run that failed"] += 1
        reward = None
    return Trajectory(
        id=mint("original", record),
        source="import",
        group=mint("group", [question, reference, _step_folder(path)]) if is_rollout else None,
        tags=origin_tags(first_of(record, ("pid", "id", "idx"))),
        question=question,
        reference=reference,
        analysis=_analysis(result),
        turns=turns,
        calls=tuple(_calls(result, numbers, text_of(record.get("model")))),
        answer=answer,
        solution=solution,
        stop=StopReason.FAILED if error is not None else _stop(turns),
        error=error,
        reward=reward,
        reward_source=None if reward is None else _REWARD_SOURCE,
        tools=texts_of(record.get("tools")) or (),
        created=unix_time(record.get("timestamp")),
        seconds=seconds if (seconds := number_of(result.get("execution_time"))) and seconds > 0 else None,
    )


def _numbers(result: Mapping[str, Any], actions: Collection[int], left_out: LeftOut) -> Iterator[int]:
    """Yield the numbers of the run's steps, in order.

    Its memory may hold steps of the question before, whose numbers are beyond the run's count.
    """
    found = {int(match[1] or match[2]) for name in result if (match := _NUMBERED.fullmatch(name))}
    found |= set(actions)
    count = number_of(result.get("step_count"))
    for number in sorted(found):
        if count is None or number <= count:
            yield number
        else:
            left_out["step of an earlier question"] += 1


def _actions(result: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    memory = mapping_of(result.get("memory"))
    return {int(match[1]): mapping_of(action) for name, action in memory.items() if (match := _ACTION.fullmatch(name))}


def _step(result: Mapping[str, Any], action: Mapping[str, Any], number: int) -> Step:
    said = {role: text_of(result.get(f"{name}_{number}_response")) for name, role in _ROLES.items()}
    stored = result.get(f"tool_result_{number}")
    return Step(action=action, result=action.get("result", stored) if action else stored, **said)


def _calls(result: Mapping[str, Any], numbers: list[int], model: str | None) -> Iterator[TracedCall]:
    """Yield the calls whose outputs are recorded; the prompts of the first and the last ones are not."""
    if text := text_of(result.get("query_analysis")):
        yield TracedCall(role="analyzer", turn=-1, text=text)
    for turn, number in enumerate(numbers):
        for name, role in _ROLES.items():
            if (said := text_of(result.get(f"{name}_{number}_response"))) is not None:
                messages = _messages(result, f"{name}_{number}")
                known = model if role == "planner" else None  # the file names the trained model only
                yield TracedCall(role=role, turn=turn, model=known, messages=messages, text=said)
    for output in ("final_output", "direct_output"):
        if text := text_of(result.get(output)):
            yield TracedCall(role="generator", turn=-1, text=text)


def _messages(result: Mapping[str, Any], name: str) -> tuple[Message, ...] | None:
    prompt = texts_of(result.get(f"{name}_prompt"))
    if prompt is None:
        return None
    system = text_of(result.get(f"{name}_system_prompt"))
    first = (Message(role="system", content=system),) if system else ()
    return (*first, Message(role="user", content="\n".join(prompt)))


def _analysis(result: Mapping[str, Any]) -> QueryAnalysis | None:
    text = text_of(result.get("query_analysis"))
    return None if text is None or read_failure(mapping_of(text)) else read_analysis(text)


def _outputs(record: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the short answer, as its scorer takes it, and the reasoning."""
    direct, final = text_of(result.get("direct_output")), text_of(result.get("final_output"))
    answer = text_of(record.get("answer_extracted"))
    if answer == "None" and direct is None:
        answer = None  # what it writes where there is no answer
    if answer is None and direct is not None:
        tagged = [text.strip() for text in _ANSWER.findall(direct)]
        answer = tagged[-1] if tagged else direct.strip()
    return answer, final or (direct if direct is not None and direct.strip() != answer else None)


def _failure(record: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """Return what failed: the call that was to answer, or the whole run, of which it keeps an empty result."""
    if not result and record.get("total_result") == {}:
        return "The original recorded no result: the run had raised an error."
    return read_failure(result.get("direct_output"))


def _stop(turns: tuple[Turn, ...]) -> StopReason | None:
    """Return VERIFIED where the last verdict says so; why else it stopped is not recorded."""
    last = turns[-1].verdict if turns else None
    return StopReason.VERIFIED if last is not None and last.stop else None


def _step_folder(path: Path) -> str | None:
    """Return the run, split and training step that a rollout lies in: `…/<run>/train/step_3/idx_17/rollout_….json`.

    A question comes up again in later steps and other runs, and is answered by another policy there.
    """
    parts = path.resolve().parts[:-1]
    at = next((at for at in range(len(parts) - 1, -1, -1) if re.fullmatch(r"step_\d+", parts[at])), None)
    return None if at is None else plain_text("/".join(parts[max(at - 2, 0) : at + 1]))
