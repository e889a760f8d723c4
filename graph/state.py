"""The state of a run. It is the evolving memory, and what checkpoints hold.

Every channel but the last three stores each record once, however many turns follow (`DeltaChannel`): a run's storage
grows linearly with its turns. Nodes write events (a plan, a command, …) to `turns`; the reducer folds them into turns.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from langgraph.channels.delta import DeltaChannel
from pydantic import Field

from graph.records import (
    Answer,
    Command,
    Exchange,
    Fault,
    ModelCall,
    Observation,
    Plan,
    QueryAnalysis,
    Record,
    StopReason,
    Turn,
    Verdict,
)

# A full copy every n updates would make storage grow quadratically; replaying a run's few hundred events is cheap.
_NEVER = 1_000_000


class Request(Record):
    """What was asked, and under which ids. Written once, at the start."""

    question: str = ""
    history: tuple[Exchange, ...] = ()
    """Earlier questions of the conversation, oldest first; never their turns."""
    conversation: str | None = None
    parent: str | None = None
    """The trajectory that this one was forked from."""
    parent_turns: int | None = None
    """How many turns it keeps of it."""
    source: Literal["ask", "chat", "evaluation", "rollout", "import"] | None = None
    """Who asked; see `graph.trace`."""
    dataset: str | None = None
    """Name of the dataset that the question is from."""
    group: str | None = None
    """Trajectories of one question that are compared with each other."""
    reference: tuple[str, ...] | None = None
    """Accepted answers, where they are known; never shown to a model."""
    tags: tuple[str, ...] = ()
    created: float = 0.0
    """Unix time."""


class ToolDescription(Record):
    """A tool as this run's prompts show it."""

    name: str
    description: str
    limits: str = ""
    best_practice: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """JSON Schema of the arguments."""
    examples: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Pairs of a sub-goal and the arguments that meet it."""
    code_argument: str | None = None
    """The one argument that is written as a fenced block rather than in JSON."""
    version: str = "1"


class Setup(Record):
    """What the run was started with: enough to render every prompt again. Written once, holds no secret."""

    tools: tuple[ToolDescription, ...] = ()
    max_turns: int = 10
    max_seconds: float = 300.0
    max_tokens: int | None = None
    memory_chars: int = 12_000
    """Budget of the rendered memory."""
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Model settings by role, without keys."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Hash of each role's prompt file."""
    config_hash: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of the packages that matter to a trace."""


TurnEvent = Plan | Command | Observation | Verdict | Fault
"""What nodes write to `turns`."""


def latest(_current: Any, writes: Sequence[Any]) -> Any:
    """Reduce a write-once channel."""
    return writes[-1]


def append_calls(current: Sequence[ModelCall], writes: Sequence[Sequence[ModelCall]]) -> list[ModelCall]:
    """Append each write's calls."""
    return [*current, *(call for write in writes for call in write)]


def fold_turns(current: Sequence[Turn], writes: Sequence[Sequence[TurnEvent]]) -> list[Turn]:
    """Fold events into turns: a plan or a planner's fault opens a turn, every other event belongs to the last one."""
    turns = list(current)
    for event in (event for write in writes for event in write):
        match event:
            case Plan():
                turns.append(Turn(plan=event))
            case Fault(module="planner"):
                turns.append(Turn(faults=(event,)))
            case Command():
                turns[-1] = turns[-1].model_copy(update={"command": event})
            case Observation():
                turns[-1] = turns[-1].model_copy(update={"observations": (*turns[-1].observations, event)})
            case Verdict():
                turns[-1] = turns[-1].model_copy(update={"verdict": event})
            case Fault():
                turns[-1] = turns[-1].model_copy(update={"faults": (*turns[-1].faults, event)})
            case _:
                raise TypeError(f"{type(event).__name__} is no event of a turn")
    return turns


class FlowInput(TypedDict):
    """What starts a run."""

    request: Request
    setup: Setup


class FlowState(TypedDict, total=False):
    """Everything that a run knows."""

    request: Annotated[Request, DeltaChannel(latest, snapshot_frequency=_NEVER)]
    setup: Annotated[Setup, DeltaChannel(latest, snapshot_frequency=_NEVER)]
    analysis: Annotated[list[QueryAnalysis], DeltaChannel(latest, snapshot_frequency=_NEVER)]
    """At most one: the channel of a record that may be missing is a list."""
    turns: Annotated[list[Turn], DeltaChannel(fold_turns, snapshot_frequency=_NEVER)]
    """The evolving memory."""
    calls: Annotated[list[ModelCall], DeltaChannel(append_calls, snapshot_frequency=_NEVER)]
    answer: Answer | None
    stop: StopReason | None
    """Set by the node that ends the turns; the generator follows."""


class FlowUpdate(TypedDict, total=False):
    """What a node returns: the part of the state that it adds to."""

    analysis: Sequence[QueryAnalysis]
    turns: Sequence[TurnEvent]
    """Events of the current turn, or the plan or fault that opens one."""
    calls: Sequence[ModelCall]
    answer: Answer
    stop: StopReason
