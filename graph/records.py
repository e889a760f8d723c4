"""What the modules say and do, as frozen records of plain JSON types.

A record never changes once it is written: the state of a run is the fold of the records that its nodes wrote.
"""

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """Base of everything that is checkpointed: immutable, strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class StopReason(StrEnum):
    """Why a run ended."""

    VERIFIED = "VERIFIED"
    """The verifier found the memory sufficient."""
    MAX_TURNS = "MAX_TURNS"
    MAX_SECONDS = "MAX_SECONDS"
    MAX_TOKENS = "MAX_TOKENS"
    CANCELLED = "CANCELLED"
    """The user stopped it; it can be resumed."""
    FAILED = "FAILED"
    """A run failure (a model server, the storage): never graded; it can be resumed once the cause is gone."""


UNGRADED: Final = frozenset({StopReason.FAILED, StopReason.CANCELLED})
"""How runs end that are never graded: they have no reward, not even 0."""


class Exchange(Record):
    """An earlier question of the conversation and the answer that was given."""

    question: str
    answer: str


class QueryAnalysis(Record):
    """The analyzer's one-time reading of the question."""

    summary: str
    """What is asked, in one sentence."""
    skills: str = ""
    """Abilities that the question needs."""
    tools: tuple[str, ...] = ()
    """Names of offered tools that look useful; names that are not offered are dropped."""
    considerations: str = ""
    """Traps and formats to keep in mind."""
    question: str | None = None
    """A follow-up rewritten to stand alone; None when the conversation has no history."""


class Plan(Record):
    """The planner's choice for one turn."""

    justification: str = ""
    context: str = ""
    """Facts from the memory and the question that the executor needs: it does not see the memory."""
    sub_goal: str
    tool: str
    """The name of an offered tool."""


class Command(Record):
    """The executor's calls of the planned tool, run concurrently."""

    tool: str
    calls: tuple[dict[str, Any], ...]
    """One to four argument objects, as the model gave them."""


class Observation(Record):
    """What one tool call brought."""

    tool: str
    arguments: dict[str, Any]
    """As executed, after safe coercion; as given where they were refused."""
    status: Literal["ok", "error", "timeout"]
    content: str
    """Text for the model: the result, or what went wrong and what to do."""
    artifact: dict[str, Any] | None = None
    """Extras for the user (figures, exit status, addresses); never shown to the model."""
    seconds: float | None = None
    """None for a call that nobody timed: one that was refused, or is from a file of another program."""
    cached: bool = False
    """Taken from the result cache."""
    repeated: bool = False
    """The run was interrupted while this call was due or under way: its effects may have happened twice."""


class Verdict(Record):
    """The verifier's judgement of the memory."""

    analysis: str = ""
    stop: bool
    """True: the memory suffices to answer."""


class Fault(Record):
    """A module's output that could not be used. It is part of the memory, and costs the turn."""

    module: str
    message: str
    """Written for the planner, which sees it."""
    output: str = ""
    """What the module had said, cut to 500 characters."""


class Turn(Record):
    """One pass plan, act, verify; the memory is the list of them."""

    plan: Plan | None = None
    """None when the planner's output was not usable (see `faults`)."""
    command: Command | None = None
    observations: tuple[Observation, ...] = ()
    """In the order of the command's calls."""
    verdict: Verdict | None = None
    faults: tuple[Fault, ...] = ()


class Answer(Record):
    """The generator's output."""

    solution: str = ""
    """The reasoning, for people."""
    answer: str
    """The short final answer; what is graded."""


class Usage(Record):
    """Tokens of one call, as the server counted them; None where it did not say."""

    prompt: int | None = None
    cached: int | None = None
    """Prompt tokens that the server did not have to compute again."""
    completion: int | None = None


class ModelCall(Record):
    """One call of a model.

    The prompt is not stored again: messages are rendered from the state, and `prompt_hash` tells whether they still are
    what was sent. Token ids are stored as the length shared with the same role's previous call and the rest.
    """

    role: str
    turn: int
    """Index of the turn it belonged to; -1 before the first turn and after the last."""
    model: str
    policy: str | None = None
    """Version of the policy that answered, where the server knows policies."""
    prompt_hash: str
    """First 16 hex digits of the sha256 of the messages' canonical JSON."""
    memory_chars: int | None = None
    """The weight that was left to what models and tools wrote (memory, history, context of a plan), so that prompt and
    answer fitted into the model's context; None where they fitted as the run's setup has them."""
    text: str
    prompt_shared: int | None = None
    prompt_rest: tuple[int, ...] | None = None
    """None when the server returns no ids."""
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Same length as `completion_ids`; of the sampled distribution at the temperature below."""
    finish_reason: str | None = None
    sampling: dict[str, Any] = Field(default_factory=dict)
    """What was asked of the server: temperature, top_p, max_tokens, seed, and `constrained`."""
    usage: Usage = Usage()
    seconds: float = 0.0
    first_token_seconds: float | None = None
    at: float = 0.0
    """Unix time at which the call was sent."""
