"""The kinds of problems that the gate knows, by what they are found in."""

from enum import StrEnum


class Kind(StrEnum):
    """What can be found; `training.gate.meaning` says what each means."""

    UNREADABLE = "unreadable"
    TORN = "torn"
    OTHER_VERSION = "other_version"
    UNEQUAL_LENGTHS = "unequal_lengths"
    GRADED_FAILURE = "graded_failure"
    UNSOURCED_REWARD = "unsourced_reward"
    CALL_WITHOUT_TURN = "call_without_turn"
    REPEATED_ID = "repeated_id"

    BENCHMARK = "benchmark"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNSCORED = "unscored"
    NO_GROUP = "no_group"
    FORK = "fork"
    REDACTED = "redacted"
    UNPLANNED_TURN = "unplanned_turn"

    NO_IDS = "no_ids"
    IMPOSSIBLE_LOGPROBS = "impossible_logprobs"
    NO_MESSAGES = "no_messages"
    PROMPT_CHANGED = "prompt_changed"
    NO_SAMPLING = "no_sampling"
    CONSTRAINED = "constrained"
    BENT = "bent"
    GREEDY = "greedy"
    FIXED_SEED = "fixed_seed"
    OTHER_TEMPERATURE = "other_temperature"

    STALE = "stale"
    OTHER_POLICY = "other_policy"
    UNKNOWN_POLICY = "unknown_policy"

    TEMPLATE = "template"
    VOCABULARY = "vocabulary"
    TEXT = "text"

    DIFFERENT_QUESTIONS = "different_questions"
    GROUP_OF_ONE = "group_of_one"
    ZERO_VARIANCE = "zero_variance"
    NO_TOKENS = "no_tokens"
    MIXED_GROUP = "mixed_group"

    SEVERAL_POLICIES = "several_policies"
    MIXED_POLICIES = "mixed_policies"
    MIXED_SETTINGS = "mixed_settings"
    MIXED_REWARDS = "mixed_rewards"
    LOST_MEMBERS = "lost_members"

    TRUNCATED = "truncated"
    EMPTY_COMPLETION = "empty_completion"
    NO_TURNS = "no_turns"
    SAME_PLANS = "same_plans"
