"""What people and scorers said of a run, as OpenInference has it: annotations of the whole trace."""

from typing import Any, Final

from openinference.semconv.trace import AnnotationAttributes, OpenInferenceAnnotatorKindValues, SpanAttributes

from graph.feedback import HUMAN, Feedback
from graph.trace import Trajectory
from graph.traces.telemetry.attributes import Attributes, as_json, text

_JUDGE: Final = "judge"
_SCORES: Final = {"good": 1.0, "bad": 0.0}


def annotation_attributes(trajectory: Trajectory) -> Attributes:
    """Return the annotations of a trajectory: its reward, and each remark.

    A person's reward is not repeated where the remark that it comes from is there.
    """
    found = [fields for remark in trajectory.feedback for fields in _of_remark(remark)]
    if trajectory.reward is not None and not (trajectory.reward_source == HUMAN and trajectory.feedback):
        found.insert(0, _of_reward(trajectory.reward, trajectory.reward_source))
    return {
        f"{SpanAttributes.TRACE_ANNOTATIONS}.{index}.{name}": text(value) if isinstance(value, str) else value
        for index, fields in enumerate(found)
        for name, value in fields.items()
        if value is not None
    }


def _of_reward(reward: float, source: str | None) -> dict[str, Any]:
    kinds = {HUMAN: OpenInferenceAnnotatorKindValues.HUMAN, _JUDGE: OpenInferenceAnnotatorKindValues.LLM}
    return {
        AnnotationAttributes.ANNOTATION_NAME: "reward",
        AnnotationAttributes.ANNOTATION_SCORE: reward,
        AnnotationAttributes.ANNOTATION_ANNOTATOR_KIND: kinds.get(
            source or "", OpenInferenceAnnotatorKindValues.CODE
        ).value,
        AnnotationAttributes.ANNOTATION_IDENTIFIER: source,
    }


def _of_remark(remark: Feedback) -> list[dict[str, Any]]:
    """Return a remark's verdict and note, and the right answer that it gives: an annotation must say one of these."""
    who = {"at": remark.at} | ({"author": remark.author} if remark.author is not None else {})
    common = {
        AnnotationAttributes.ANNOTATION_ANNOTATOR_KIND: OpenInferenceAnnotatorKindValues.HUMAN.value,
        AnnotationAttributes.ANNOTATION_IDENTIFIER: str(remark.at),
        AnnotationAttributes.ANNOTATION_METADATA: as_json(who),
    }
    found: list[dict[str, Any]] = []
    if remark.verdict is not None or remark.note is not None:
        verdict = {
            AnnotationAttributes.ANNOTATION_NAME: "feedback",
            AnnotationAttributes.ANNOTATION_LABEL: remark.verdict,
            AnnotationAttributes.ANNOTATION_SCORE: _SCORES[remark.verdict] if remark.verdict else None,
            AnnotationAttributes.ANNOTATION_EXPLANATION: remark.note,
        }
        found.append(verdict | common)
    if remark.answer is not None:
        answer = {
            AnnotationAttributes.ANNOTATION_NAME: "right answer",
            AnnotationAttributes.ANNOTATION_EXPLANATION: remark.answer,
        }
        found.append(answer | common)
    return found
