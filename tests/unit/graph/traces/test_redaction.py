"""What exports replace, what they leave alone, and what a call loses whose text has changed."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.config import FlowConfig, load_config
from graph.errors import ConfigError
from graph.feedback import Feedback
from graph.known_secrets import KnownSecrets
from graph.memory import cut
from graph.prompt import hash_messages
from graph.records import Command, Exchange, Fault, Observation, Plan, QueryAnalysis, StopReason, Turn, Verdict
from graph.trace import Trajectory
from graph.traces import personal
from graph.traces.patterns import KEY, KEYS, Pattern
from graph.traces.redaction import Redactor
from graph.traces.settings import TracesSettings
from tests.any_trajectory import realistic, trajectories
from tests.trajectories import make_call

STARTER = Path(__file__).parents[4] / "evals" / "data" / "starter.jsonl"
KEYS_ONLY = Redactor.of(FlowConfig(), personal=False, own={})
PERSONAL = Redactor.of(FlowConfig(), personal=True, own={})
PLANTED = "alice@example.org"


def redacted(text: str, redactor: Redactor = PERSONAL) -> str:
    return redactor.redact(Trajectory(id="t", question=text)).question


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use sk-proj-abcdefghij1234567890ABCDEFGH now", "use [key] now"),
        ("sk-ant-api03-Ab1-cdefGHIJ12345678901234_x", "[key]"),
        ("hf_abcdefghijABCDEFGHIJ12345678901234", "[key]"),
        ("ghp_abcdefghijABCDEFGHIJ1234567890abcdef", "[key]"),
        ("(github_pat_11ABCDEFG0abcdefghij_klmnop)", "([key])"),
        ("AKIAIOSFODNN7EXAMPLE, ASIAIOSFODNN7EXAMPLE", "[key], [key]"),
        ("key=tvly-dev-abcdef0123456789ABCDEF", "key=[key]"),
        ("xoxb-123456789012-abcdefABCDEF", "[key]"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[key]"),
        ("Authorization: Bearer abc.def-1234567890xyz\n", "Authorization: Bearer [key]\n"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n", "[key]"),
        ("postgresql://user:hunter22@host/db", "postgresql://user:[password]@host/db"),
        ("redis://:p@ss@host:6379", "redis://:[password]@host:6379"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB/+=\nAAKC\n-----END RSA PRIVATE KEY----- b", "a [key] b"),
        (r'{"k": "-----BEGIN PRIVATE KEY-----\nMIIEpAIB\n-----END PRIVATE KEY-----\n"}', r'{"k": "[key]\n"}'),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk… [90 characters left out] …", "[key]… [90 "),
        (r'{"text": "line\nsk-proj-abcdefghij1234567890ABCDEFGH"}', r'{"text": "line\n[key]"}'),
    ],
)
def test_keys_are_known_by_their_shape(text, shown):
    assert redacted(text, KEYS_ONLY).startswith(shown)
    assert redacted(text).startswith(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mail alice.b+x@mail.example.co.uk, or <bob@example.org>.", "mail [email], or <[email]>."),
        ("mailto:jürgen@müller.example", "mailto:[email]"),
        (r'{"to": "x\nalice@example.org"}', r'{"to": "x\n[email]"}'),
        ("ring +49 30 901820 or +442079460958", "ring [phone] or [phone]"),
        ("+1 (415) 555-2671 and +1-415-555-2671 12 apples", "[phone] and [phone] 12 apples"),
        ("+33.1.42.68.53.00", "[phone]"),
        ("10.0.0.1, 192.168.1.254:80, 8.8.8.8/24.", "[ip], [ip]:80, [ip]/24."),
        (r"{\"a\": \"\n172.16.254.3\"}", r"{\"a\": \"\n[ip]\"}"),
        ("2001:db8::1 [fe80::1%eth0] 2001:0db8:85a3:0000:0000:8a2e:0370:7334.", "[ip] [[ip]%eth0] [ip]."),
        ("4111 1111 1111 1111 4111-1111-1111-1111 4111111111111111", "[card] [card] [card]"),
        ("5555555555554444,2223003122003222,6011111111111117", "[card],[card],[card]"),
        ("378282246310005 and 3782 822463 10005 and 3056 930902 5904", "[card] and [card] and [card]"),
        ("DE89 3704 0044 0532 0130 00 BIC COBADEFF", "[iban] BIC COBADEFF"),
        ("BE68 5390 0754 7034 SEPA GB29NWBK60161331926819", "[iban] SEPA [iban]"),
    ],
)
def test_what_tells_who_somebody_is_goes_where_that_is_asked_for(text, shown):
    assert redacted(text) == shown
    assert redacted(text, KEYS_ONLY) == text


@pytest.mark.parametrize(
    "text",
    [
        "0190a5b2-7c3d-7e8f-9a0b-1c2d3e4f5a6b and 41111111-1111-4111-8111-111111111111",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709 4111111111111111a 0x4111111111111111",
        "2026-12-01T05:13:40.123456+00:00 on 2026-12-01, 12:30:45, 01.12.2026, UTC+02:00",
        "40 + 2 = 42, +3.14159265358979, 12+34567890123, +33.1415926535, 5 +1234567, +100000000, +12",
        "9007199254740992 4111111111111112 0.4111111111111111 4111111111111111.5 1700000000000 9780306406157",
        "1234 5678 1234 5678 9012, 4111 1111 11111111",
        "version 1.2.3, v1.2.3.4, 1.2.3.4.5, 10.0.19041.1, 300.1.1.1, 01.2.3.4, §1.2.3",
        "a[1::2] a[::2] x[::-1] std::vector dead::beef x :: Int 00:1A:2B:3C:4D:5E ::1 12:30",
        "@tool def f(): x@y a @ b.c planner@v3 origin@{u} @alice",
        "sk-learn-estimator-doc-link-something sk-container-id-1 risk-free-1234567890abcdefghij task-1",
        "the bearer of responsibilities, bearer authentication-without-number, Bearer <token>",
        "http://localhost:8000/v1 https://host:8443/a@b redis://h:6379/0 https://user@host/",
        "DE89 3704 0044 0532 0130 01 AB12CDEF ISO9001 COVID19",
        "eyJhbGciOiJIUzI1NiJ9 AKIAIOSFODNN7 hf_transfer gh_token ghp_ github_pat_ AIza xox-",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    ],
)
def test_what_looks_alike_stays(text):
    trajectory = Trajectory(id="t", question=text)
    assert PERSONAL.redact(trajectory) is trajectory


def test_no_starter_question_changes():
    for line in STARTER.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        trajectory = Trajectory(id=item["id"], question=item["question"], reference=tuple(item["answer"]))
        assert PERSONAL.redact(trajectory) is trajectory


def planted(secret: str) -> Trajectory:
    """A trajectory that holds a text in every field that people, models or tools write."""
    turn = Turn(
        plan=Plan(justification=secret, context=secret, sub_goal=secret, tool="search"),
        command=Command(tool="search", calls=({"q": secret, secret: [{"deep": [secret, 1]}]},)),
        observations=(
            Observation(
                tool="search",
                arguments={secret: secret},
                status="ok",
                content=secret,
                artifact={"a": [{secret: secret}]},
            ),
        ),
        verdict=Verdict(analysis=secret, stop=True),
        faults=(Fault(module="verifier", message=secret, output=secret),),
    )
    messages = ({"role": "system", "content": "You plan."}, {"role": "user", "content": f"Ask {secret}."})
    ids = {"prompt_ids": [1, 2], "completion_ids": [3], "logprobs": [-0.5]}
    calls = (
        make_call("planner", 0, messages=messages, prompt_hash=hash_messages(messages), text="a plan", **ids),
        make_call("executor", 0, messages=messages[:1], prompt_hash=hash_messages(messages[:1]), text=secret, **ids),
        make_call("verifier", 0, messages=messages[:1], prompt_hash=hash_messages(messages[:1]), text="ok", **ids),
        make_call("generator", -1, messages=None, text="42", model=secret, sampling={"extra": {"user": secret}}, **ids),
    )
    return Trajectory(
        id="alice", conversation="alice", question=secret, history=(Exchange(question=secret, answer=secret),),
        reference=(secret, "42"), analysis=QueryAnalysis(summary=secret, question=secret), tags=(secret,),
        turns=(turn,), calls=calls, answer=secret, solution=secret, stop=StopReason.FAILED, error=secret,
        feedback=(Feedback(at=1.0, verdict="bad", answer=secret, note=secret, author=secret),), dataset=secret,
    )  # fmt: skip


@pytest.mark.parametrize(("secret", "name"), [(PLANTED, "email"), ("sk-proj-abcdefghij1234567890ABCDEFGH", "key")])
def test_every_text_is_walked(secret, name):
    before = planted(secret)
    after = PERSONAL.redact(before)
    assert secret not in after.model_dump_json()
    assert after.model_dump_json().count(f"[{name}]") == before.model_dump_json().count(secret)
    assert after.redacted == (name,)
    assert Trajectory.model_validate_json(after.model_dump_json()) == after


def test_a_call_that_changed_loses_what_spells_it_and_the_others_keep_everything():
    before = planted(PLANTED)
    planner, executor, verifier, generator = PERSONAL.redact(before).calls
    assert planner.messages is not None
    assert planner.messages[1]["content"] == "Ask [email]."
    assert planner.prompt_hash == hash_messages(planner.messages) != before.calls[0].prompt_hash
    assert executor.prompt_hash == before.calls[1].prompt_hash
    assert verifier == before.calls[2]
    # Nobody knows what stands in a prompt that could not be rendered again.
    for call in (planner, executor, generator):
        assert (call.prompt_ids, call.completion_ids, call.logprobs) == (None, None, None)


def test_ids_stay_as_they_are():
    """An own pattern may match anything; what ties records together is no text."""
    before = planted("x").model_copy(update={"group": "alice", "parent": "alice", "prompts": {"planner": "alice"}})
    after = Redactor.of(FlowConfig(), personal=False, own={"who": "alice|planner|user|bad|FAILED|search"}).redact(
        before
    )
    kept = ("id", "conversation", "group", "parent", "prompts", "stop")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert [call.role for call in after.calls] == [call.role for call in before.calls]
    assert after.calls[0].messages[1]["role"] == "user"
    assert after.turns[0].plan.tool == "[who]"
    assert Trajectory.model_validate_json(after.model_dump_json()) == after


def test_two_keys_of_a_table_that_become_equal_are_both_kept():
    found = Observation(
        tool="t", arguments={}, status="ok", content="", artifact={"a@b.cd": 1, "e@f.gh": 2, "i@j.kl": 3}
    )
    after = PERSONAL.redact(Trajectory(id="t", question="q", turns=(Turn(observations=(found,)),)))
    assert after.turns[0].observations[0].artifact == {"[email]": 1, "[email] (2)": 2, "[email] (3)": 3}


def test_what_is_left_of_a_match_that_was_cut_goes_too():
    result = f"{'x' * 30} {PLANTED} {'y' * 40} {PLANTED} {'z' * 60}"
    for limit in range(70, len(result)):
        shorter = cut(result, limit)
        messages = ({"role": "user", "content": f"Result: {shorter}"},)
        turn = Turn(observations=(Observation(tool="t", arguments={}, status="ok", content=result),))
        before = Trajectory(
            id="t", question="q", turns=(turn,), calls=(make_call("planner", 0, messages=messages, prompt_ids=[1]),)
        )
        after = PERSONAL.redact(before)
        shown = after.calls[0].messages[0]["content"]
        rests = [PLANTED[:n] for n in range(4, len(PLANTED))] + [PLANTED[-n:] for n in range(4, len(PLANTED))]
        assert not [rest for rest in rests if rest in shown], shown
        assert shown.count("characters left out") == 1
        assert (after.calls[0].prompt_ids is None) == (shown != messages[0]["content"])
        assert PERSONAL.redact(after) is after


def test_known_secrets_go_whatever_they_look_like(monkeypatch):
    monkeypatch.setenv("OUR_KEY", 'our "own" secret')
    config = FlowConfig.model_validate({"models": {"planner": {"api_key_env": "OUR_KEY"}}})
    redactor = Redactor.of(config, personal=False, own={})
    before = Trajectory(id="t", question='x our "own" secret', answer=r'{"a": "our \"own\" secret"}')
    after = redactor.redact(before)
    assert (after.question, after.answer, after.redacted) == ("x [key]", '{"a": "[key]"}', ("key",))


def test_a_known_secret_of_several_lines_is_found(monkeypatch):
    monkeypatch.setenv("OUR_KEY", "first line\nsecond line")
    config = FlowConfig.model_validate({"models": {"planner": {"api_key_env": "OUR_KEY"}}})
    text = "a\nfirst line\nsecond line\nb"
    assert redacted(text, Redactor.of(config, personal=False, own={})) == "a\n[key]\nb"


def test_a_users_own_patterns():
    config = FlowConfig(traces=TracesSettings(redact={"order": r"^ORD-\d+"}))
    texts = ("ORD-123 came", "no ORD-123")
    before = Trajectory(id="t", question=texts[0], answer=texts[1], solution="ticket T-1 and me@example.org")
    standing = Redactor.of(config, personal=True, own={}).redact(before)
    assert (standing.question, standing.answer) == ("[order] came", texts[1])
    assert standing.redacted == ("email", "order")
    own = Redactor.of(config, personal=False, own={"ticket": r"T-\d"}).redact(before)
    assert (own.question, own.solution, own.redacted) == (texts[0], "ticket [ticket] and me@example.org", ("ticket",))


@pytest.mark.parametrize(
    ("name", "regex", "why"),
    [
        ("order", "ORD-[", "order is no regular expression"),
        ("order", "x*", "order matches where there is nothing"),
        ("or]der", "x", r"the name 'or\]der' must be a word"),
        ("", "x", "the name '' must be a word"),
    ],
)
def test_an_own_pattern_that_cannot_be_used_is_a_sentence(tmp_path, name, regex, why):
    with pytest.raises(ConfigError, match=f"^--redact-pattern cannot be used: {why}.*\\.$"):
        Redactor.of(FlowConfig(), personal=False, own={name: regex})
    file = tmp_path / "agentflow.toml"
    file.write_text(f"[traces.redact]\n{json.dumps(name)} = {json.dumps(regex)}\n")
    with pytest.raises(ConfigError, match=rf"^The setting traces\.redact.* does not fit: {why}"):
        load_config(file)


def test_a_trajectory_without_a_match_is_returned_as_it_is():
    trajectory = realistic(1)
    assert PERSONAL.redact(trajectory) is trajectory


PIECES = st.sampled_from(
    ["a@b.cd", "@", ".", "+49 30 901820", "1", "10.0.0.1", " ", "4111 1111 1111 1111", "[email]", "[", "]", "ORD-", ":",
     "://u:pw@", "sk-proj-abcdefghij1234567890", "DE89 3704 0044 0532 0130 00", "\\n", "\n", "-", "2001:db8::1", "x",
     "-----BEGIN PRIVATE KEY-----", "bearer abcdefghij1234567890", "known secret"]
)  # fmt: skip
OWN = Redactor(
    [Pattern(KEY, KnownSecrets(["known secret"]).pattern), *KEYS, *personal.PERSONAL],
    [Pattern(name, re.compile(regex)) for name, regex in {"own": r"\]?a|\d\w|x$", "all": "b.+|ORD-"}.items()],
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_was_redacted_has_nothing_left(text):
    once = OWN.redact(Trajectory(id="t", question=text))
    assert OWN.redact(once) is once


@settings(max_examples=60, deadline=None)
@given(trajectories())
def test_redacting_twice_changes_nothing(trajectory):
    once = OWN.redact(trajectory)
    assert OWN.redact(once) is once
    assert Trajectory.model_validate_json(once.model_dump_json()) == once
    assert set(once.redacted) >= set(trajectory.redacted)
