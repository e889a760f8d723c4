"""Makes trajectories: any that schema v1 allows, for properties, and typical ones, for figures.

`trajectories()` follows the models' own fields, so that a field that is added there is drawn here. `realistic()` is
what a run of a few turns leaves whose planner's server returns token ids.
"""

import random
import re
import types
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from itertools import cycle, islice
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, MaxLen, MinLen
from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from graph.feedback import Feedback
from graph.prompt import Message, hash_messages, load_prompt
from graph.records import (
    UNGRADED,
    Command,
    Observation,
    Plan,
    QueryAnalysis,
    Record,
    StopReason,
    Turn,
    Usage,
    Verdict,
)
from graph.trace import TracedCall, Trajectory

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
"""Of all planes; what `plain_text` leaves."""
TEXTS = st.text(CHARACTERS, max_size=20)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 5e-324, -2.225073858507201e-308, 1e308, -1.7976931348623157e308, 0.1, 1e16]),
)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
"""What `plain_json` leaves."""


def trajectories() -> st.SearchStrategy[Trajectory]:
    """Any valid trajectory."""
    return records(Trajectory)


@cache
def records(model: type[Record]) -> st.SearchStrategy[Any]:
    """Any valid record of this class."""
    values = st.fixed_dictionaries({name: _field(field) for name, field in model.model_fields.items()})
    return values.map(lambda drawn: model(**_MENDED.get(model, dict)(drawn)))


def _field(field: FieldInfo) -> st.SearchStrategy[Any]:
    limits = {type(limit): limit for limit in field.metadata}
    least = limits[Ge].ge if Ge in limits else None
    if MaxLen in limits:
        return st.text(CHARACTERS, min_size=limits[MinLen].min_length, max_size=limits[MaxLen].max_length)
    return _values(field.annotation, least)


def _values(kind: Any, least: Any = None) -> st.SearchStrategy[Any]:
    """Any value of a type as the records use them; numbers are at least `least`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _values(parts[0], least)
    if origin in (Union, types.UnionType):
        return st.none() | _values(next(part for part in parts if part is not types.NoneType), least)
    if origin is Literal:
        return st.sampled_from(parts)
    if origin is tuple:
        return _tuples(parts[0])
    if origin is dict:
        return st.dictionaries(TEXTS, JSON if parts[1] is Any else _values(parts[1]), max_size=3)
    if is_typeddict(kind):
        return st.fixed_dictionaries({name: _values(part) for name, part in get_type_hints(kind).items()})
    if issubclass(kind, Record):
        return records(kind)
    if issubclass(kind, StrEnum):
        return st.sampled_from(kind)
    numbers = {bool: st.booleans(), str: TEXTS, int: INTEGERS, float: FLOATS}[kind]
    return numbers if least is None else numbers.map(lambda number: max(number, type(number)(least)))


def _tuples(kind: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    few = st.lists(_values(kind), max_size=3).map(tuple)
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if plain not in (int, float):
        return few
    many = st.builds(_many, st.just(plain), st.integers(100, 5000), st.integers(0, 2**32))
    return st.one_of(few, few, few, many)


def _many(kind: type, length: int, seed: int) -> tuple[Any, ...]:
    """As many token ids or log-probabilities as a real call has; drawn one by one they would take minutes."""
    rng = random.Random(seed)
    return tuple(rng.randrange(2**18) if kind is int else -rng.expovariate(3.0) for _ in range(length))


def _mended_trajectory(drawn: dict[str, Any]) -> dict[str, Any]:
    if drawn["reward"] is None or drawn["stop"] in UNGRADED:
        graded = {"reward": None, "reward_source": None}
    else:
        graded = {"reward_source": drawn["reward_source"] or "exact"}
    owners = len(drawn["turns"]) + 1
    calls = tuple(call.model_copy(update={"turn": (call.turn + 1) % owners - 1}) for call in drawn["calls"])
    return drawn | graded | {"calls": calls}


def _mended_call(drawn: dict[str, Any]) -> dict[str, Any]:
    ids, logprobs = drawn["completion_ids"], drawn["logprobs"]
    if ids is None or logprobs is None:
        return drawn | {"logprobs": None}
    return drawn | {"logprobs": tuple(islice(cycle(logprobs or (-0.0,)), len(ids)))}


def _mended_feedback(drawn: dict[str, Any]) -> dict[str, Any]:
    silent = drawn["verdict"] is None and drawn["answer"] is None and drawn["note"] is None
    return drawn | {"note": ""} if silent else drawn


_MENDED = {Trajectory: _mended_trajectory, TracedCall: _mended_call, Feedback: _mended_feedback}
"""What the models demand of several fields at once."""

_WORDS = re.findall(
    r"\S+",
    "the of and to in is was for on that by with as it from at which were this an are or be has had first "
    "population river century according article published results however between during station measured 1987 42.5",
)
_MODULES = ("analyzer", "planner", "executor", "verifier", "generator")
_PLAN_TOKENS = 160


def realistic(seed: int, turns: int = 3, prompt_tokens: int = 1500) -> Trajectory:
    """A typical trajectory: five modules, prompts that grow from turn to turn, ids and log-probs of planner calls.

    The same seed gives the same trajectory.
    """
    rng = random.Random(seed)
    question = prose(rng, 25) + "?"
    done = [_turn(rng, last=number == turns) for number in range(1, turns + 1)]
    calls = [_call(rng, "analyzer", -1, question, ())]
    prompt = [rng.randrange(150_000) for _ in range(prompt_tokens + 200 * turns)]
    for index, turn in enumerate(done):
        ids = prompt[: prompt_tokens + 200 * index]
        calls.append(_call(rng, "planner", index, question, done[:index], ids))
        calls.append(_call(rng, "executor", index, question, ()))
        calls.append(_call(rng, "verifier", index, question, (*done[:index], turn)))
    calls.append(_call(rng, "generator", -1, question, done))
    return Trajectory(
        id=f"00000000-0000-7000-8000-{seed:012x}",
        source="rollout",
        group=f"group-{seed // 8}",
        dataset="bamboogle",
        tags=("train",),
        question=question,
        reference=(prose(rng, 2),),
        analysis=QueryAnalysis(summary=prose(rng, 20), skills=prose(rng, 10), tools=("search", "python")),
        turns=tuple(done),
        calls=tuple(calls),
        answer=prose(rng, 3),
        solution=prose(rng, 60),
        stop=StopReason.VERIFIED,
        reward=float(seed % 2),
        reward_source="exact",
        tools=("search", "python", "generate"),
        prompts={role: load_prompt(role).digest for role in _MODULES},
        config_hash=f"{rng.getrandbits(64):016x}",
        versions={"agentflow": "0.1.0", "langgraph": "1.2.20", "langchain-core": "1.8.0"},
        created=1_790_000_000.0 + seed,
        seconds=round(sum(call.seconds or 0.0 for call in calls), 3),
    )


def prose(rng: random.Random, words: int) -> str:
    """Text that compresses about as well as English."""
    return " ".join(rng.choices(_WORDS, k=words))


def _turn(rng: random.Random, *, last: bool) -> Turn:
    arguments = {"query": prose(rng, 8), "limit": rng.randrange(1, 10)}
    found = Observation(
        tool="search",
        arguments=arguments,
        status="ok",
        content=prose(rng, 250),
        artifact={"addresses": [f"https://example.org/{rng.randrange(10**6)}" for _ in range(5)]},
        seconds=round(rng.random() * 3, 3),
    )
    return Turn(
        plan=Plan(justification=prose(rng, 30), context=prose(rng, 30), sub_goal=prose(rng, 15), tool="search"),
        command=Command(tool="search", calls=(arguments,)),
        observations=(found,),
        verdict=Verdict(analysis=prose(rng, 40), stop=last),
    )


def _call(
    rng: random.Random, role: str, turn: int, question: str, memory: Sequence[Turn], prompt: Sequence[int] = ()
) -> TracedCall:
    trained = role == "planner"
    text = prose(rng, 80)
    written = "\n".join(turn.model_dump_json() for turn in memory)
    messages = (
        Message(role="system", content="\n".join(section.text for section in load_prompt(role).sections)),
        Message(role="user", content=f"{question}\n{written}"),
    )
    sampling: dict[str, Any] = {"temperature": 0.7 if trained else 0.0, "top_p": 1.0, "max_tokens": 2048, "seed": None}
    return TracedCall(
        role=role,
        turn=turn,
        model="Qwen/Qwen2.5-7B-Instruct",
        policy="v7" if trained else None,
        messages=messages,
        prompt_hash=hash_messages(messages),
        text=text,
        prompt_ids=tuple(prompt) if trained else None,
        completion_ids=tuple(rng.randrange(150_000) for _ in range(_PLAN_TOKENS)) if trained else None,
        logprobs=tuple(-rng.expovariate(3.0) for _ in range(_PLAN_TOKENS)) if trained else None,
        finish_reason="stop",
        sampling=sampling | {"constrained": not trained},
        usage=Usage(prompt=len(prompt) or 800, cached=len(prompt) // 2, completion=_PLAN_TOKENS),
        seconds=round(rng.random() * 2, 4),
        first_token_seconds=round(rng.random() / 5, 4),
        at=1_790_000_000.0 + round(rng.random(), 3),
    )
