"""A trace: the record of one question that people read, evaluations count and training learns from.

Schema version 1, explained field by field in docs/traces.md. A field that nobody knows is None; nothing is invented.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from graph.feedback import Feedback
from graph.prompt import Message
from graph.records import UNGRADED, Exchange, Fault, QueryAnalysis, Record, StopReason, Turn, Usage

SCHEMA_VERSION: Final = 1
ID_CHARS: Final = 36

Source = Literal["ask", "chat", "evaluation", "rollout", "import"]
"""Who asked: the command line, the page, an evaluation, training; or a file of another program."""

Finite = Annotated[float, Field(allow_inf_nan=False)]


class TracedCall(Record):
    """A model call with its prompt."""

    role: str
    """`analyzer`, `planner`, `executor`, `verifier`, `generator`, or `generate` for the tool of that name."""
    turn: int = Field(ge=-1)
    """Index of its turn, from 0; -1 before the first turn and after the last."""
    model: str | None = None
    policy: str | None = None
    """Version of the policy that answered, where the server knows policies."""
    messages: tuple[Message, ...] | None = None
    """None when they cannot be rendered as they were sent (another version of the prompts)."""
    prompt_hash: str | None = None
    """First 16 hex digits of the sha256 of the messages' canonical JSON, taken when they were sent."""
    memory_chars: int | None = None
    """The weight that was left to memory, so that prompt and answer fitted into the context; None: all had room."""
    text: str
    prompt_ids: tuple[int, ...] | None = None
    """Token ids of the whole prompt, as the server counted them; None when it returns none."""
    completion_ids: tuple[int, ...] | None = None
    """Token ids as they were sampled. Text is never tokenised again."""
    logprobs: tuple[Finite, ...] | None = None
    """Natural logarithms, of the distribution that was sampled; as long as `completion_ids`, None with it."""
    finish_reason: str | None = None
    sampling: dict[str, Any] | None = None
    """What was asked of the server: temperature, top_p, max_tokens, seed, extra, and `constrained`."""
    usage: Usage = Usage()
    seconds: Finite | None = Field(None, ge=0)
    first_token_seconds: Finite | None = Field(None, ge=0)
    at: Finite | None = None
    """Unix time at which it was sent."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ids, logprobs = self.completion_ids, self.logprobs
        if logprobs is not None and (ids is None or len(ids) != len(logprobs)):
            raise PydanticCustomError(
                "unequal_lengths",
                "{ids} completion ids stand beside {logprobs} log-probabilities",
                {"ids": 0 if ids is None else len(ids), "logprobs": len(logprobs)},
            )
        return self


class Trajectory(Record):
    """One question's run."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: str = Field(min_length=1, max_length=ID_CHARS)
    source: Source | None = None
    conversation: str | None = None
    group: str | None = None
    """Trajectories of one question that are compared with each other."""
    parent: str | None = None
    """The trajectory that this one was forked from."""
    parent_turns: int | None = Field(None, ge=0)
    """How many of its turns are the parent's."""
    dataset: str | None = None
    """Name of the dataset or benchmark that the question is from."""
    tags: tuple[str, ...] = ()
    question: str
    history: tuple[Exchange, ...] = ()
    """Earlier questions of the conversation, oldest first."""
    reference: tuple[str, ...] | None = None
    """Accepted answers, where they are known; no model saw them."""
    analysis: QueryAnalysis | None = None
    turns: tuple[Turn, ...] = ()
    calls: tuple[TracedCall, ...] = ()
    answer: str | None = None
    """The short final answer; what is graded."""
    solution: str | None = None
    stop: StopReason | None = None
    error: str | None = None
    """What failed, when `stop` is FAILED."""
    reward: Finite | None = None
    """None: not scored, or not to be scored (failures)."""
    reward_source: str | None = None
    """The scorer's name, `judge` or `human`; None without a reward."""
    feedback: tuple[Feedback, ...] = ()
    """What people said of it, oldest first."""
    tools: tuple[str, ...] = ()
    """Names of the offered tools."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Hash of each role's prompt file."""
    config_hash: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of the packages that matter to a trace."""
    created: Finite | None = None
    """Unix time."""
    seconds: Finite | None = Field(None, ge=0)
    """Spent in model and tool calls."""
    redacted: tuple[str, ...] = ()
    """Names of the patterns whose matches were replaced when it was exported."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.reward is not None and self.stop in UNGRADED:
            raise PydanticCustomError("graded_failure", "a run that ended {stop} has no reward", {"stop": self.stop})
        if (self.reward is None) != (self.reward_source is None):
            raise PydanticCustomError("unsourced_reward", "reward and reward_source go together")
        if any(call.turn >= len(self.turns) for call in self.calls):
            raise PydanticCustomError("call_without_turn", "a call belongs to a turn that is not there")
        return self

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Every module output that could not be used."""
        return tuple(fault for turn in self.turns for fault in turn.faults)

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that planned it, in the order of their first call."""
        return tuple(dict.fromkeys(call.policy for call in self.calls_of("planner") if call.policy))

    @property
    def used_tools(self) -> tuple[str, ...]:
        """Names of the tools that were called, in the order of their first call."""
        return tuple(dict.fromkeys(result.tool for turn in self.turns for result in turn.observations))

    def calls_of(self, role: str) -> Sequence[TracedCall]:
        """Return the calls of one role, in order."""
        return [call for call in self.calls if call.role == role]


def is_finite(values: Sequence[float]) -> bool:
    """Whether every log-probability is a number that can be trained on."""
    return all(map(math.isfinite, values))
