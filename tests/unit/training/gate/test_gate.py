"""Sound traces with one defect each: it is found, named, and takes what it spoils out of exact."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evals.overlap import BenchmarkQuestions
from graph.records import StopReason, Turn
from graph.trace import Trajectory
from graph.traces.reading import Damage, DamagedTraceError, parse_trajectory
from tests.any_trajectory import trajectories
from tests.gate_traces import BENCHMARK, sampled, sort, sound, sound_call, sound_group, with_calls
from training.gate.gate import Gate
from training.gate.judging import Use
from training.gate.kind import Kind
from training.gate.meaning import MEANINGS, PROBLEMS
from training.gate.report import GateReport
from training.gate.settings import GateSettings
from training.gate.sorting import Sorting
from training.replay import TraceReplay
from training.turn_row import rows_of

Spoil = Callable[[Trajectory], Trajectory]


def kinds(report: GateReport) -> dict[Kind, int]:
    return {problem.kind: problem.count for problem in report.problems}


def exact(sorting: Sorting) -> list[str]:
    return [name for name, uses in sorting.uses.items() if Use.EXACT in uses]


def update(**fields: Any) -> Spoil:
    return lambda found: Trajectory.model_validate(found.model_dump() | fields)


def call(**fields: Any) -> Spoil:
    return lambda found: with_calls(found, **fields)


def asked(**fields: Any) -> Spoil:
    return lambda found: sampled(found, **fields)


def lost(**fields: Any) -> Spoil:
    return update(reward=None, reward_source=None, **fields)


def without_planner_call(found: Trajectory) -> Trajectory:
    return found.model_copy(update={"calls": tuple(call for call in found.calls if call.turn == 0)})


def planned_twice(found: Trajectory) -> Trajectory:
    return found.model_copy(update={"calls": (*found.calls, sound_call(1, found.id))})


WITHOUT_IDS = call(prompt_ids=None, completion_ids=None, logprobs=None)
DEFECTS: list[tuple[Kind, Spoil, str]] = [
    (Kind.BENCHMARK, update(question=f"Answer in one word. {BENCHMARK}"), ""),
    (Kind.FAILED, lost(stop=StopReason.FAILED, error="The server is gone."), "leaves its group"),
    (Kind.CANCELLED, lost(stop=StopReason.CANCELLED), "leaves its group"),
    (Kind.UNSCORED, lost(), "leaves its group"),
    (Kind.NO_GROUP, update(group=None), "leaves its group"),
    (Kind.FORK, update(parent="g1", parent_turns=1), "leaves its group"),
    (Kind.FORK, update(parent_turns=0), "leaves its group"),
    (Kind.REDACTED, lambda found: update(redacted=("email",))(WITHOUT_IDS(found)), ""),
    (Kind.UNPLANNED_TURN, without_planner_call, ""),
    (Kind.UNPLANNED_TURN, planned_twice, ""),
    (Kind.UNPLANNED_TURN, update(turns=(*sound("x").turns, Turn())), ""),
    (Kind.NO_IDS, call(completion_ids=None, logprobs=None), ""),
    (Kind.NO_IDS, call(logprobs=None), ""),
    (Kind.NO_IDS, call(prompt_ids=None), ""),
    (Kind.NO_IDS, call(prompt_ids=()), ""),
    (Kind.IMPOSSIBLE_LOGPROBS, call(completion_ids=(1, 2), logprobs=(-0.1, 0.5)), ""),
    (Kind.NO_MESSAGES, call(messages=None), ""),
    (Kind.NO_MESSAGES, call(prompt_hash=None), ""),
    (Kind.PROMPT_CHANGED, call(messages=({"role": "user", "content": "Something else"},)), ""),
    (Kind.NO_SAMPLING, call(sampling=None), ""),
    (Kind.NO_SAMPLING, call(sampling={}), ""),
    (Kind.NO_SAMPLING, asked(temperature="hot"), ""),
    (Kind.NO_SAMPLING, asked(temperature=None), ""),
    (Kind.NO_SAMPLING, asked(temperature=True), ""),
    (Kind.NO_SAMPLING, asked(temperature=-0.7), ""),
    (Kind.NO_SAMPLING, asked(temperature=10**400), ""),
    (Kind.NO_SAMPLING, asked(extra=[1]), ""),
    (Kind.CONSTRAINED, asked(constrained=True), ""),
    (Kind.BENT, asked(top_p=0.9), ""),
    (Kind.BENT, asked(top_p=0), ""),
    (Kind.BENT, asked(top_p="most"), ""),
    (Kind.BENT, asked(extra={"top_k": 20}), ""),
    (Kind.BENT, asked(extra={"repetition_penalty": 1.05}), ""),
    (Kind.BENT, asked(extra={"stop": ["\n"]}), ""),
    (Kind.BENT, asked(extra={"repeat_penalty": 1.1}), ""),
    (Kind.BENT, asked(top_k=20), ""),
    (Kind.GREEDY, asked(temperature=0.0), ""),
    (Kind.FIXED_SEED, asked(seed=0), ""),
    (Kind.OTHER_TEMPERATURE, asked(temperature=0.5), ""),
    (Kind.STALE, call(policy="planner@v2"), ""),
    (Kind.STALE, call(policy="Qwen/Qwen2.5-0.5B-Instruct"), ""),
    (Kind.OTHER_POLICY, call(policy="critic@v3"), ""),
    (Kind.UNKNOWN_POLICY, call(policy=None), ""),
]
ALONE = [pytest.param(kind, spoil, left, id=f"{kind}-{index}") for index, (kind, spoil, left) in enumerate(DEFECTS)]
NAMED_ELSEWHERE = {Kind.TEMPLATE, Kind.VOCABULARY, Kind.TEXT}
"""tests/integration/test_gate_tokenizer.py finds them, with a real tokenizer."""


@pytest.mark.parametrize(("kind", "spoil", "left"), ALONE)
def test_a_defect_is_found_named_and_takes_the_trajectory_out_of_exact(kind: Kind, spoil: Spoil, left: str) -> None:
    group, others = sound_group(), sound_group("h") + sound_group("i")
    group[2] = spoil(group[2])
    sorting = sort([*others, *group])
    found = kinds(sorting.report)
    assert found.pop(kind) == 1
    problem = next(problem for problem in sorting.report.problems if problem.kind is kind)
    (name,) = problem.examples
    assert name.startswith("g2") and (name == "g2") == (kind not in {Kind.BENCHMARK, Kind.BENT})  # noqa: PT018
    assert (problem.level, problem.unit) == ("problem", "trajectory")
    assert problem.alone == (0 if kind is Kind.REDACTED else 1)
    names = [trajectory.id for trajectory in others]
    if left:
        assert exact(sorting) == [*names, "g0", "g1"], "it is no part of the baseline"
        assert found.keys() <= {Kind.LOST_MEMBERS}
    else:
        assert exact(sorting) == names, "without a scored member the baseline would be another"
        follows = {Kind.MIXED_GROUP, Kind.DIFFERENT_QUESTIONS, *([Kind.NO_IDS] if kind is Kind.REDACTED else [])}
        assert not found.keys() & PROBLEMS - follows
        assert sorting.report.groups.mixed == 1


def test_examples_say_which_benchmark_is_asked_and_which_fields_bend() -> None:
    both = sampled(sound("a", question=BENCHMARK), top_k=20, extra={"min_p": 0.1, "id_slot": 1})
    examples = {problem.kind: problem.examples for problem in sort([both]).report.problems}
    assert examples[Kind.BENCHMARK] == (f"a (same in games: {BENCHMARK})",)
    assert examples[Kind.BENT] == ("a (min_p, top_k)",)


GROUPS: list[tuple[Kind, Sequence[Trajectory], str]] = [
    (Kind.GROUP_OF_ONE, sound_group(rewards=[1.0]), "of_one"),
    (Kind.GROUP_OF_ONE, sound_group(rewards=[1.0, None]), "of_one"),
    (Kind.ZERO_VARIANCE, sound_group(rewards=[0.5, 0.5, None]), "zero_variance"),
    (Kind.DIFFERENT_QUESTIONS, [sound("a"), sound("b", reward=0.0, question="Another?")], "mixed"),
    (Kind.DIFFERENT_QUESTIONS,
     [sound("a"), sound("b", reward=0.0, history=({"question": "p", "answer": "q"},))], "mixed"),
    (Kind.MIXED_GROUP, [sound("a"), sampled(sound("b", reward=0.0), constrained=True)], "mixed"),
    (Kind.NO_TOKENS, [sound("a", turns=0), sound("b", reward=0.0, turns=0)], "inexact"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "group", "state"), GROUPS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_group_that_teaches_nothing_is_named_and_taken_out(
    kind: Kind, group: Sequence[Trajectory], state: str
) -> None:
    sorting = sort([*sound_group("h"), *group])
    assert kinds(sorting.report)[kind] == 1
    assert next(problem for problem in sorting.report.problems if problem.kind is kind).examples == ("g",)
    assert exact(sorting) == ["h0", "h1", "h2"]
    counts = sorting.report.groups
    assert (counts.trainable, getattr(counts, state), counts.all) == (1, 1, 2)


def test_groups_without_a_usable_or_scored_member_are_counted_by_themselves() -> None:
    inexact = [sampled(found, constrained=True) for found in sound_group("a")]
    sorting = sort([*inexact, *sound_group("b", rewards=[None, None]), *sound_group("c")])
    counts = sorting.report.groups
    assert (counts.inexact, counts.unscored, counts.trainable, counts.all) == (1, 1, 1, 3)
    assert kinds(sorting.report) == {Kind.CONSTRAINED: 3, Kind.UNSCORED: 2}


HARMLESS: list[tuple[Kind, Spoil]] = [
    (Kind.TRUNCATED, call(finish_reason="length")),
    (Kind.EMPTY_COMPLETION, call(completion_ids=(), logprobs=())),
    (Kind.NO_TURNS, update(turns=(), calls=())),
    (Kind.MIXED_SETTINGS, update(config_hash="d")),
    (Kind.MIXED_SETTINGS, update(prompts={"planner": "x"})),
    (Kind.MIXED_REWARDS, update(reward_source="human")),
    (Kind.SAME_PLANS, lambda found: found.model_copy(update={"calls": sound("g0").calls})),
]


@pytest.mark.parametrize(("kind", "spoil"), HARMLESS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_harmless_is_told_and_stays_exact(kind: Kind, spoil: Spoil) -> None:
    group = sound_group()
    group[2] = spoil(group[2])
    sorting = sort(group)
    assert kinds(sorting.report) == {kind: 1}
    assert MEANINGS[kind].level != "problem"
    assert exact(sorting) == ["g0", "g1", "g2"]
    assert len(TraceReplay(group).groups["g"]) == 3


def test_a_promotion_in_the_middle_of_a_group_is_a_warning_where_staleness_is_allowed() -> None:
    group = sound_group()
    group[0] = with_calls(group[0], policy="planner@v2")
    sorting = sort(group, max_staleness=1)
    assert kinds(sorting.report) == {Kind.SEVERAL_POLICIES: 1, Kind.MIXED_POLICIES: 1}
    assert exact(sorting) == ["g0", "g1", "g2"]
    assert sorting.report.versions_behind == {0: 5, 1: 1}
    assert sorting.report.policies == {"planner@v3": 5, "planner@v2": 1}


def test_a_kept_turn_of_another_policy_is_named_in_a_fork_too() -> None:
    fork = with_calls(sound("f", parent="g0", parent_turns=1), policy="planner@v2")
    assert kinds(sort([*sound_group(), fork]).report) == {Kind.FORK: 1, Kind.STALE: 1, Kind.SEVERAL_POLICIES: 1}


@pytest.mark.parametrize(
    ("policy", "staleness", "stale", "other"),
    [
        (None, 0, 3, 0),
        (None, 1, 0, 0),
        ("planner@v3", 0, 3, 0),
        ("planner@v4", 0, 6, 0),
        ("planner@v4", 2, 0, 0),
        ("planner@v2", 0, 0, 3),
        ("critic@v3", 9, 0, 6),
        ("base", 9, 0, 6),
    ],
)
def test_age_is_counted_from_the_version_that_is_trained(
    policy: str | None, staleness: int, stale: int, other: int
) -> None:
    old = [with_policy(found, "planner@v2") for found in sound_group("old")]
    sorting = sort([*old, *sound_group("new")], policy=policy, max_staleness=staleness)
    found = kinds(sorting.report)
    assert (found.get(Kind.STALE, 0), found.get(Kind.OTHER_POLICY, 0)) == (stale, other)
    assert sorting.report.policy == (policy or "planner@v3")
    assert len(exact(sorting)) == 6 - stale - other


def with_policy(found: Trajectory, policy: str | None) -> Trajectory:
    calls = tuple(call.model_copy(update={"policy": policy}) for call in found.calls)
    return found.model_copy(update={"calls": calls})


@pytest.mark.parametrize(
    ("wanted", "names", "exactly"),
    [
        (None, ["some/model", "some/model"], 6),
        ("base", ["some/model", "some/model"], 6),
        (None, ["some/model", "other/model"], 3),
        ("other/model", ["some/model", "other/model"], 3),
        ("planner@v0", ["some/model", "some/model"], 6),
        ("planner@v1", ["some/model", "some/model"], 0),
        (None, [None, None], 6),
        (None, [None, "some/model"], 3),
    ],
)
def test_the_model_as_it_is_counts_as_version_0(wanted: str | None, names: list[str | None], exactly: int) -> None:
    groups = [with_policy(found, name) for name, group in zip(names, "ab", strict=True) for found in sound_group(group)]
    sorting = sort(groups, policy=wanted)
    assert len(exact(sorting)) == exactly
    told = any("Staleness" in sentence for sentence in sorting.report.not_checked)
    assert told == (sorting.report.policy is None) == (names == [None, None])


def test_a_server_without_ids_is_not_blamed_for_knowing_no_policies() -> None:
    plain = with_calls(sound("p", group=None), prompt_ids=None, completion_ids=None, logprobs=None, policy=None)
    assert Kind.UNKNOWN_POLICY not in kinds(sort([*sound_group(), plain]).report)


def test_the_temperature_of_most_usable_trajectories_is_trained_at_unless_another_is_asked_for() -> None:
    hot = [with_temperature(found, 1.0) for group in "ab" for found in sound_group(group)]
    warm = sound_group("c")
    unusable = [update(group=None)(with_temperature(found, 0.2)) for group in "defg" for found in sound_group(group)]
    sorting = sort([*unusable, *warm, *hot])
    assert sorting.report.temperature == 1.0
    assert sorting.report.temperatures == {0.2: 12, 1.0: 6, 0.7: 3}
    assert kinds(sorting.report)[Kind.OTHER_TEMPERATURE] == 15
    assert exact(sorting) == [found.id for found in hot]
    assert exact(sort([*warm, *hot], temperature=0.7)) == [found.id for found in warm]
    assert exact(sort([*warm, *hot], temperature=0.8)) == []


def test_two_temperatures_in_one_trajectory_are_named_even_where_nothing_says_which_is_trained_at() -> None:
    sorting = sort([sampled(found, temperature=0.5) for found in sound_group(rewards=[1.0, 0.0])])
    assert sorting.report.temperature is None
    assert kinds(sorting.report) == {Kind.OTHER_TEMPERATURE: 2}


def with_temperature(found: Trajectory, temperature: float) -> Trajectory:
    sampling = {**found.calls[0].sampling, "temperature": temperature}  # type: ignore[dict-item]
    calls = tuple(call.model_copy(update={"sampling": sampling}) for call in found.calls)
    return found.model_copy(update={"calls": calls})


def test_the_second_of_two_with_one_id_is_dropped() -> None:
    group = sound_group(rewards=[1.0, 0.0])
    again = group[0].model_copy(update={"reward": 0.5})
    sorting = sort([*group, again])
    assert kinds(sorting.report) == {Kind.REPEATED_ID: 1}
    assert sorting.report.trajectories == 2
    assert sorting.facts["g0"].reward == 1.0


def test_lost_members_are_told_and_leave_the_baseline() -> None:
    group = sound_group(rewards=[1.0, 0.0, None, None])
    group[3] = update(stop=StopReason.FAILED)(group[3])
    sorting = sort(group)
    assert kinds(sorting.report) == {Kind.UNSCORED: 1, Kind.FAILED: 1, Kind.LOST_MEMBERS: 1}
    assert exact(sorting) == ["g0", "g1"]
    assert sorting.uses["g2"] == sorting.uses["g3"] == {Use.QUESTION}
    fork = sound("f", reward=None, parent="g0", parent_turns=1)
    assert kinds(sort([*group[:2], fork]).report) == {Kind.UNSCORED: 1, Kind.FORK: 1}, "it was never a member"


def test_members_without_turns_did_not_plan_the_same() -> None:
    group = [*sound_group(), *(sound(name, turns=0) for name in "ab")]
    assert kinds(sort(group).report) == {Kind.NO_TURNS: 2}


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda data: "{", Kind.UNREADABLE),
        (lambda data: json.dumps(data | {"surprise": 1}), Kind.UNREADABLE),
        (lambda data: json.dumps(data | {"reward": "much"}), Kind.UNREADABLE),
        (lambda data: json.dumps(data | {"schema_version": 2}), Kind.OTHER_VERSION),
        (lambda data: json.dumps(data | {"stop": "FAILED"}), Kind.GRADED_FAILURE),
        (lambda data: json.dumps(data | {"reward_source": None}), Kind.UNSOURCED_REWARD),
        (lambda data: json.dumps(data | {"turns": []}), Kind.CALL_WITHOUT_TURN),
        (lambda data: data["calls"][0]["logprobs"].pop() and json.dumps(data), Kind.UNEQUAL_LENGTHS),
    ],
)
def test_records_that_are_no_trajectories_are_counted_by_what_is_wrong(
    spoil: Callable[[dict[str, Any]], str], kind: Kind
) -> None:
    gate = Gate(GateSettings(), benchmarks=BenchmarkQuestions({}))
    for trajectory in sound_group():
        gate.add(trajectory)
    with pytest.raises(DamagedTraceError) as error:
        parse_trajectory(spoil(sound("x").model_dump(mode="json")), "traces.jsonl, line 4")
    gate.damaged(error.value.damage)
    report = gate.judge().report
    assert kinds(report) == {kind: 1}
    assert report.problems[0].examples[0].startswith("traces.jsonl, line 4: ")
    assert report.trainable


def test_a_torn_last_line_is_named() -> None:
    gate = Gate(GateSettings(), benchmarks=BenchmarkQuestions({}))
    gate.damaged(Damage("traces.jsonl, line 9", "torn", "the file ends in the middle of this line."))
    report = gate.judge().report
    assert kinds(report) == {Kind.TORN: 1}
    assert not report.trainable
    assert report.temperature is report.policy is None


def test_every_trajectory_has_one_class_and_demonstrations_are_counted_beside_them() -> None:
    chat = {"group": None, "reward": None, "reference": None}
    found = sort(
        [
            *sound_group("a", rewards=[1.0, 0.0]),  # exact, and one of them a demonstration
            *sound_group("b", rewards=[1.0, 1.0]),  # two questions that are one, both demonstrations
            sound("c", **chat),  # unusable
            sound("d", **chat | {"reward": 1.0}),  # a demonstration only
            sound("e", **chat | {"reward": 0.9}),  # unusable
            sound("f", **chat | {"question": BENCHMARK, "reward": 1.0, "reference": ("x",)}),  # unusable
            sound("h", **chat | {"reference": (" ", "x"), "question": "Who?"}),  # a question only
            sound("i", **chat | {"reference": ("x",), "question": " "}),  # unusable
        ]
    )
    report = found.report
    assert (report.exact, report.questions_only, report.demonstrations_only, report.unusable) == (2, 3, 1, 4)
    assert report.trajectories == 10
    assert (report.demonstrations, report.exact_demonstrations, report.questions) == (4, 1, 2)
    assert (report.turns, report.tokens) == (4, 12)
    assert report.overlaps == {"games": {"same": 1}}
    assert report.benchmarks == {"games": 1}


def test_a_judge_makes_questions_without_a_reference_askable_and_success_is_what_one_says() -> None:
    traces = [sound("c", group=None, reward=None, reference=None), sound("e", group=None, reward=0.9, reference=None)]
    assert sort(traces, judge=True).report.questions_only == 2
    assert sort(traces, success=0.9).report.demonstrations == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: update(redacted=("email",))(WITHOUT_IDS(found)),
        update(turns=(Turn(), *sound("x", turns=1).turns)),
        call(text=" "),
        call(messages=None),
        call(messages=({"role": "user", "content": "?"},)),
        without_planner_call,
        update(turns=(), calls=()),
    ],
)
def test_a_success_whose_plans_cannot_be_imitated_is_no_demonstration(spoil: Spoil) -> None:
    assert sort([spoil(sound("a", group=None, reference=None))]).report.unusable == 1
    sampled_elsewhere = call(completion_ids=None, logprobs=None, sampling={"constrained": True}, policy=None)
    assert sort([sampled_elsewhere(sound("a", group=None, reference=None))]).report.demonstrations == 1


def test_what_redaction_did_not_touch_is_used() -> None:
    group = sound_group(rewards=[1.0, 0.0])
    group[1] = update(redacted=("email",), answer="[email]")(group[1])
    sorting = sort(group)
    assert exact(sorting) == ["g0", "g1"]
    assert not sorting.report.problems
    asked = sound("a", group=None, question="Who is [email]?", redacted=("email",), reward=0.0)
    follow_up = {"question": "And then?", "history": ({"question": "Who is [email]?", "answer": "Nobody"},)}
    assert sort([asked, update(id="b", **follow_up)(asked)]).report.unusable == 2
    assert sort([update(redacted=("phone",))(asked)]).report.questions_only == 1
    answered = sound("a", group=None, reference=("[email]",), redacted=("email",), reward=0.0)
    assert sort([answered]).report.unusable == 1, "nobody's answer is [email]"
    assert sort([update(reference=("[email]", "42"))(answered)]).report.questions_only == 1
    assert sort([answered], judge=True).report.questions_only == 1


def test_a_follow_up_that_was_rewritten_to_a_benchmarks_question_is_one() -> None:
    history = ({"question": "Tell me of old bridges.", "answer": "There are many."},)
    analysis = {"summary": "s", "question": BENCHMARK}
    follow_up = sound("a", question="And which city hosted the games then?", history=history, analysis=analysis)
    assert kinds(sort([follow_up]).report)[Kind.BENCHMARK] == 1
    assert sort([follow_up]).report.unusable == 1


def test_every_kind_has_a_meaning_and_a_test() -> None:
    assert MEANINGS.keys() == set(Kind)
    damages = {Kind.TORN, Kind.UNREADABLE, Kind.OTHER_VERSION, Kind.GRADED_FAILURE, Kind.UNSOURCED_REWARD}
    damages |= {Kind.CALL_WITHOUT_TURN, Kind.UNEQUAL_LENGTHS, Kind.REPEATED_ID}
    mixtures = {Kind.SEVERAL_POLICIES, Kind.MIXED_POLICIES, Kind.LOST_MEMBERS}
    tested = {kind for kind, *_ in [*DEFECTS, *GROUPS, *HARMLESS]}
    assert tested | damages | mixtures | NAMED_ELSEWHERE == set(Kind)
    for meaning in MEANINGS.values():
        assert meaning.todo.endswith(".")


SPOILERS = [spoil for _, spoil, _ in DEFECTS] + [spoil for _, spoil in HARMLESS]


@st.composite
def spoilt_groups(draw: st.DrawFn) -> list[Trajectory]:
    found = []
    for name in "abcd"[: draw(st.integers(1, 4))]:
        rewards = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4))
        for trajectory in sound_group(name, rewards):
            spoil = draw(st.sampled_from([None, None, None, *SPOILERS]))
            found.append(spoil(trajectory) if spoil else trajectory)
    return found


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(spoilt_groups(), st.integers(0, 3))
def test_training_takes_exactly_what_the_gate_calls_exact(traces: list[Trajectory], staleness: int) -> None:
    sorting = sort(traces, max_staleness=staleness)
    chosen = [trajectory for trajectory in traces if Use.EXACT in sorting.uses[trajectory.id]]
    if chosen:
        replay = TraceReplay(chosen)
        assert replay.temperature == sorting.report.temperature
        assert sum(map(len, replay.groups.values())) == len(chosen) == sorting.report.exact
        for group in replay.groups.values():
            assert len({trajectory.reward for trajectory in group}) > 1
            members = [found for found in traces if found.group == group[0].group and found.reward is not None]
            assert {found.id for found in members if found.parent_turns is None} == {found.id for found in group}
        rows = [row for trajectory in chosen for row in rows_of(trajectory)]
        assert (len(rows), sum(len(row.completion_ids) for row in rows)) == (
            sorting.report.turns,
            sorting.report.tokens,
        )
    assert sum(sorting.report.model_dump(include=CLASSES).values()) == sorting.report.trajectories == len(traces)


CLASSES = {"exact", "questions_only", "demonstrations_only", "unusable"}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(trajectories(), max_size=6))
def test_any_trajectories_pass_through_the_gate(traces: list[Trajectory]) -> None:
    report = sort(traces, judge=True).report
    assert sum(report.model_dump(include=CLASSES).values()) == report.trajectories
    assert GateReport.model_validate(report.model_dump(exclude={"trainable"})) == report
    assert json.loads(report.model_dump_json())["trainable"] is report.trainable


def test_the_gate_loads_neither_torch_nor_transformers() -> None:
    slow = {"torch", "transformers", "rapidfuzz", "pyarrow"}
    code = f"import sys, training.gate.gate, agentflow.traces.validate; print(*{slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
