"""What the flow relies on in the engine's server: slots that keep prompts, on disk too, and cancelling."""

import json
import time
from typing import Any

import httpx
import pytest

from graph.engine import ROLE_SLOTS, EngineInfo, LocalSettings, ensure_engine, stop_engine, warm_slots
from graph.engine.home import all_homes
from graph.errors import ConfigError

pytestmark = pytest.mark.engine

_PROMPTS = {
    "planner": [{"role": "system", "content": "You plan. " + "Name one tool and one goal. " * 20}],
    "verifier": [{"role": "system", "content": "You verify. " + "Say whether the goal is reached. " * 20}],
}


def client(info: EngineInfo) -> httpx.Client:
    return httpx.Client(
        base_url=info.base_url.removesuffix("/v1"),
        headers={"Authorization": f"Bearer {info.api_key}", "Connection": "close"},
        timeout=120,
    )


def body(role: str, question: str, **more: Any) -> dict[str, Any]:
    return {
        "messages": [*_PROMPTS[role], {"role": "user", "content": question}],
        "id_slot": ROLE_SLOTS[role],
        "max_tokens": 2,
        "temperature": 0,
    } | more


def prefilled(info: EngineInfo, role: str, question: str) -> int:
    """Prompt tokens that a call had to read, not finding them cached."""
    with client(info) as http:
        usage = http.post("/v1/chat/completions", json=body(role, question)).json()["usage"]
    return int(usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"])


def test_saved_slots_make_the_first_question_warm(embedded: LocalSettings) -> None:
    cold = prefilled(ensure_engine(embedded), "planner", "Where is Rome?")
    read = warm_slots(embedded, _PROMPTS)
    assert read.keys() == _PROMPTS.keys()
    assert min(read.values()) > 100
    assert warm_slots(embedded, _PROMPTS) == {}, "what is saved is not read again"
    stop_engine()
    fresh = ensure_engine(embedded)
    for role in _PROMPTS:
        assert prefilled(fresh, role, "Where is Oslo?") < 25 < 100 < cold
    changed = {"planner": [{"role": "system", "content": "You plan otherwise. " * 40}]}
    assert warm_slots(embedded, changed).keys() == {"planner"}


def test_a_damaged_saved_slot_costs_only_its_warmth(embedded: LocalSettings) -> None:
    warm_slots(embedded, _PROMPTS)
    stop_engine()
    (home,) = all_homes()
    (home.slots / "planner.bin").write_bytes(b"damaged")
    info = ensure_engine(embedded)
    assert not (home.slots / "planner.bin").exists()
    assert prefilled(info, "verifier", "Is it so?") < 25
    assert warm_slots(embedded, _PROMPTS).keys() == {"planner"}


def test_slots_saved_by_another_version_are_dropped(embedded: LocalSettings) -> None:
    warm_slots(embedded, {"planner": _PROMPTS["planner"]})
    stop_engine()
    (home,) = all_homes()
    manifest = home.slots / "manifest.json"
    manifest.write_text(json.dumps({"planner": "0.0.0/" + json.loads(manifest.read_text())["planner"].split("/")[1]}))
    ensure_engine(embedded)
    assert json.loads(manifest.read_text()) == {}
    assert not (home.slots / "planner.bin").exists()


def test_unknown_roles_are_refused(embedded: LocalSettings) -> None:
    with pytest.raises(ConfigError, match="no engine slot for poet"):
        warm_slots(embedded, {"poet": _PROMPTS["planner"]})


def test_prompts_that_alternate_in_a_slot_both_stay_cached(embedded: LocalSettings) -> None:
    info = ensure_engine(embedded)
    with client(info) as http:
        for turn in range(2):
            for role in ("planner", "verifier"):
                answer = http.post("/v1/chat/completions", json=body(role, f"Question {turn}", id_slot=2)).json()
                if turn:
                    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 100


def test_constrained_output_streams_with_usage(embedded: LocalSettings) -> None:
    schema = {
        "type": "object",
        "properties": {"goal": {"type": "string", "maxLength": 40}, "tool": {"enum": ["python", "search_corpus"]}},
        "required": ["goal", "tool"],
        "additionalProperties": False,
    }
    request = body(
        "planner",
        "What is 2**64?",
        max_tokens=80,
        stream=True,
        stream_options={"include_usage": True},
        return_progress=True,
        response_format={"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}},
    )
    chunks: list[dict[str, Any]] = []
    with client(ensure_engine(embedded)) as http, http.stream("POST", "/v1/chat/completions", json=request) as answer:
        chunks += [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in chunks if chunk["choices"]]
    texts = [piece for piece in pieces if piece]
    assert len(texts) > 5
    plan = json.loads("".join(texts))
    assert plan["tool"] in {"python", "search_corpus"}
    assert any("prompt_progress" in chunk for chunk in chunks)
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert "cached_tokens" in chunks[-1]["usage"]["prompt_tokens_details"]


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_cancelled_stream_frees_its_slot(embedded: LocalSettings, phase: str) -> None:
    question = "word " * 700 if phase == "prefill" else "Count from 1 to 500."
    request = body("planner", question, max_tokens=200, ignore_eos=True, stream=True, return_progress=True)
    with client(ensure_engine(embedded)) as http:
        with http.stream("POST", "/v1/chat/completions", json=request) as answer:
            for line in answer.iter_lines():
                if ("prompt_progress" if phase == "prefill" else '"content":"') in line:
                    break
        slot = ROLE_SLOTS["planner"]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = http.get("/slots").json()[slot]
            if not state["is_processing"]:
                break
            time.sleep(0.05)
        assert not state["is_processing"]
        metrics = http.get("/metrics").text
    counters = dict(line.split() for line in metrics.splitlines() if line.startswith("llamacpp:"))
    # Cancelled long before its end: neither the whole prompt nor 200 tokens were worked through.
    if phase == "prefill":
        assert float(counters["llamacpp:tokens_predicted_total"]) == 0
    else:
        assert float(counters["llamacpp:tokens_predicted_total"]) < 150
