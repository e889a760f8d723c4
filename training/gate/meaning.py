"""What each kind of problem means: what it costs, and what to do about it."""

from dataclasses import dataclass
from typing import Final, Literal

from training.gate.kind import Kind

Level = Literal["problem", "warning", "note"]
"""`problem`: what has it is not used exactly; `warning`: it is, and one should know; `note`: it is harmless."""
Unit = Literal["record", "trajectory", "group"]


@dataclass(frozen=True)
class Meaning:
    """What a kind is, in words for people."""

    unit: Unit
    """What is counted."""
    what: str
    """Continues "12 trajectories …"."""
    todo: str
    """A sentence on what to do."""
    level: Level = "problem"


_AGAIN = "Roll out again with a planner on `agentflow serve`, which returns what training needs."

MEANINGS: Final = {
    Kind.UNREADABLE: Meaning("record", "are no trajectories", "Export them again: the examples say what is wrong."),
    Kind.TORN: Meaning("record", "end in the middle", "Export the file again: a crash cut its last line off."),
    Kind.OTHER_VERSION: Meaning(
        "record", "are of another schema version", "Read them with the release that wrote them."
    ),
    Kind.UNEQUAL_LENGTHS: Meaning(
        "record", "have fewer or more log-probabilities than token ids", f"Do not repair them. {_AGAIN}"
    ),
    Kind.GRADED_FAILURE: Meaning(
        "record",
        "failed or were cancelled and have a reward all the same",
        "Take the reward out: a failure of a server says nothing about the policy.",
    ),
    Kind.UNSOURCED_REWARD: Meaning(
        "record", "have a reward without its source, or a source without a reward", "Add reward_source, or drop both."
    ),
    Kind.CALL_WITHOUT_TURN: Meaning("record", "have calls of a turn that is not there", "Export them again."),
    Kind.REPEATED_ID: Meaning(
        "record", "repeat the id of an earlier one", "Nothing: the first was taken; check which one you want."
    ),
    Kind.BENCHMARK: Meaning(
        "trajectory",
        "ask a benchmark's question",
        "Leave them out: they are kept out of every use, as they would spoil the benchmark's score.",
    ),
    Kind.FAILED: Meaning(
        "trajectory", "failed", "Resume them with `agentflow runs resume`, or roll the questions out again."
    ),
    Kind.CANCELLED: Meaning("trajectory", "were cancelled", "Resume them with `agentflow runs resume`."),
    Kind.UNSCORED: Meaning(
        "trajectory", "ended without a reward", "Score them, or judge them with `agentflow feedback ID --good | --bad`."
    ),
    Kind.NO_GROUP: Meaning(
        "trajectory", "belong to no group", "Roll the questions out several times: a reward counts against its group."
    ),
    Kind.FORK: Meaning(
        "trajectory",
        "are forks",
        "Nothing: their kept turns were sampled elsewhere and chosen by a person.",
    ),
    Kind.REDACTED: Meaning(
        "trajectory",
        "lost token ids of the planner when they were redacted",
        "Validate the traces as they were recorded: redacted text was never sampled.",
    ),
    Kind.UNPLANNED_TURN: Meaning(
        "trajectory", "have turns without exactly one planner call", "Nothing: a person or program wrote those plans."
    ),
    Kind.NO_IDS: Meaning("trajectory", "have planner calls without token ids or log-probabilities", _AGAIN),
    Kind.IMPOSSIBLE_LOGPROBS: Meaning("trajectory", "have log-probabilities above 0", f"Do not repair them. {_AGAIN}"),
    Kind.NO_MESSAGES: Meaning(
        "trajectory",
        "have planner calls without their messages or the messages' hash",
        "Roll them out again: the prompts were changed, or another program wrote the trace.",
    ),
    Kind.PROMPT_CHANGED: Meaning(
        "trajectory", "have planner messages that are not what was sent", "Find out what changed them; export again."
    ),
    Kind.NO_SAMPLING: Meaning("trajectory", "do not say how the planner was sampled", _AGAIN),
    Kind.CONSTRAINED: Meaning(
        "trajectory",
        "were planned under a schema",
        'Roll out with models.planner.structured = "off" (or auto on vLLM).',
    ),
    Kind.BENT: Meaning(
        "trajectory",
        "were planned with top_p below 1, penalties, stop words or the like",
        "Roll out with models.planner.top_p = 1 and nothing in extra that bends or cuts what is sampled.",
    ),
    Kind.GREEDY: Meaning(
        "trajectory", "were planned at temperature 0", "Roll out with models.planner.temperature above 0."
    ),
    Kind.FIXED_SEED: Meaning(
        "trajectory",
        "were planned with a fixed seed",
        "Roll out without models.planner.seed: rollouts must differ by chance.",
    ),
    Kind.OTHER_TEMPERATURE: Meaning(
        "trajectory", "were planned at another temperature", "Train each temperature by itself: see --temperature."
    ),
    Kind.STALE: Meaning(
        "trajectory",
        "were planned by too old a policy",
        "Roll out again with the current one, or allow --max-staleness.",
    ),
    Kind.OTHER_POLICY: Meaning(
        "trajectory",
        "were planned by a policy that did not lead to the trained one",
        "Validate them by themselves, or name theirs with --for.",
    ),
    Kind.UNKNOWN_POLICY: Meaning("trajectory", "do not say which policy planned", _AGAIN),
    Kind.TEMPLATE: Meaning(
        "trajectory",
        "have prompt ids that the model's chat template does not make",
        "Give the model that sampled them; a template with a date, or changed since, never matches.",
    ),
    Kind.VOCABULARY: Meaning(
        "trajectory", "have ids that the model's vocabulary lacks", "Give the model that sampled them with --model."
    ),
    Kind.TEXT: Meaning(
        "trajectory",
        "have completion ids that decode to another text",
        "Give the model that sampled them with --model.",
    ),
    Kind.DIFFERENT_QUESTIONS: Meaning(
        "group", "hold several questions", "Give each question a group of its own: rewards are compared within it."
    ),
    Kind.GROUP_OF_ONE: Meaning(
        "group", "have a single scored member", "Roll the question out again, several times in one group."
    ),
    Kind.ZERO_VARIANCE: Meaning(
        "group",
        "have equal rewards throughout",
        "Leave them: such questions are too easy or too hard to learn from now.",
    ),
    Kind.NO_TOKENS: Meaning("group", "hold no planner token", "Roll out with max_turns above 0."),
    Kind.MIXED_GROUP: Meaning(
        "group",
        "hold exact members and others that are scored too",
        "Roll them out again as a whole: without the others the baseline would be biased.",
    ),
    Kind.SEVERAL_POLICIES: Meaning(
        "trajectory",
        "were planned by several policies",
        "Nothing: each call's log-probabilities are its own policy's.",
        "warning",
    ),
    Kind.MIXED_POLICIES: Meaning(
        "group",
        "compare rewards of several policies",
        "Nothing, if a promotion fell into them: only the baseline mixes.",
        "warning",
    ),
    Kind.MIXED_SETTINGS: Meaning(
        "group",
        "compare rewards under several settings or prompts",
        "Roll a group out under one configuration.",
        "warning",
    ),
    Kind.MIXED_REWARDS: Meaning(
        "group", "compare rewards of several scorers", "Score a group by one scorer, or one person.", "warning"
    ),
    Kind.LOST_MEMBERS: Meaning(
        "group",
        "lost members that failed or were not scored",
        "Resume or score them: the baseline is biased where what is hard is lost more often.",
        "warning",
    ),
    Kind.TRUNCATED: Meaning(
        "trajectory",
        "have planner calls cut at max_tokens",
        "Raise models.planner.max_tokens if they are many.",
        "note",
    ),
    Kind.EMPTY_COMPLETION: Meaning(
        "trajectory",
        "have planner calls that sampled nothing",
        "Nothing: such a turn counts, and teaches nothing.",
        "note",
    ),
    Kind.NO_TURNS: Meaning(
        "trajectory", "have no turns", "Nothing: their rewards count in the baseline, and they teach nothing.", "note"
    ),
    Kind.SAME_PLANS: Meaning(
        "trajectory",
        "planned word for word as another of their group",
        "Raise the temperature if they are many; they count as they are.",
        "note",
    ),
}
"""Every kind has one."""

PROBLEMS: Final = frozenset(kind for kind, meaning in MEANINGS.items() if meaning.level == "problem")
"""What keeps a trajectory from being used exactly."""
