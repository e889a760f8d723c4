import json
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from openinference.semconv.trace import AnnotationAttributes, MessageAttributes, SpanAttributes
from opentelemetry import trace as global_trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from graph.feedback import Feedback, with_feedback
from graph.records import Fault, Observation, Plan, StopReason, Turn, Usage, Verdict
from graph.trace import Trajectory
from graph.traces.telemetry.ids import span_id, trace_id
from graph.traces.telemetry.spans import Projector
from tests.any_trajectory import realistic, trajectories
from tests.otlp_collector import values
from tests.trajectories import make_call

ID = "0198c5a2-7e57-7b3c-9f00-0123456789ab"
NAMES = {
    value
    for names in (SpanAttributes, MessageAttributes, AnnotationAttributes)
    for name, value in vars(names).items()
    if name.isupper()
}
"""Every name of the convention."""


def exported(run: Trajectory):
    """The spans by name, as an exporter of the SDK gets them; of several under one name the last."""
    exporter = InMemorySpanExporter()
    exporter.export(Projector().spans_of(run))
    return {span.name: span for span in exporter.get_finished_spans()}


def whole_run(**changes) -> Trajectory:
    """A run of one turn in which every field that spans show is set."""
    fields = {
        "id": ID,
        "source": "rollout",
        "conversation": "c-1",
        "group": "g-1",
        "dataset": "bamboogle",
        "tags": ("first", "zweite ü"),
        "question": "What is asked?",
        "reference": ("42",),
        "turns": (
            Turn(
                plan=Plan(sub_goal="Find it", tool="search"),
                observations=(
                    Observation(tool="search", arguments={"q": "ä"}, status="ok", content="found", seconds=1.0),
                    Observation(
                        tool="search", arguments={"q": "b"}, status="timeout", content="too\nlate", seconds=2.0
                    ),
                ),
                verdict=Verdict(analysis="It is there.", stop=True),
                faults=(Fault(module="verifier", message="There was no JSON.", output="?"),),
            ),
        ),
        "calls": (
            make_call("analyzer", -1, at=1_700_000_001.0, seconds=1.0, text="An analysis"),
            make_call(
                "planner",
                0,
                at=1_700_000_003.0,
                seconds=2.0,
                model="qwen",
                policy="planner@v3",
                messages=({"role": "system", "content": "You plan."}, {"role": "user", "content": "What is asked?"}),
                prompt_hash="0123456789abcdef",
                memory_chars=900,
                text="A plan",
                finish_reason="length",
                sampling={"temperature": 0.7, "constrained": False},
                usage=Usage(prompt=100, cached=60, completion=20),
                first_token_seconds=0.25,
            ),
            make_call("executor", 0, at=1_700_000_006.0, seconds=1.0),
            make_call("verifier", 0, at=1_700_000_010.0, seconds=1.0),
            make_call("generator", -1, at=1_700_000_012.0, seconds=1.0, text="The answer"),
        ),
        "answer": "42",
        "stop": StopReason.VERIFIED,
        "reward": 0.5,
        "reward_source": "exact",
        "prompts": {"planner": "fedcba9876543210"},
        "config_hash": "c" * 16,
        "created": 1_700_000_000.0,
        "seconds": 8.0,
    }
    return Trajectory(**fields | changes)


def test_the_root_tells_the_run():
    root = exported(whole_run())["agentflow"]
    metadata = json.loads(root.attributes[SpanAttributes.METADATA])
    assert {name: value for name, value in root.attributes.items() if not name.startswith("trace.")} == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: "AGENT",
        SpanAttributes.AGENT_NAME: "agentflow",
        SpanAttributes.INPUT_VALUE: "What is asked?",
        SpanAttributes.OUTPUT_VALUE: "42",
        SpanAttributes.SESSION_ID: "c-1",
        SpanAttributes.TAG_TAGS: ("first", "zweite ü"),
        SpanAttributes.METADATA: root.attributes[SpanAttributes.METADATA],
    }
    assert metadata == {
        "id": ID,
        "source": "rollout",
        "group": "g-1",
        "dataset": "bamboogle",
        "reference": ["42"],
        "stop": "VERIFIED",
        "reward": 0.5,
        "reward_source": "exact",
        "policies": ["planner@v3"],
        "config_hash": "c" * 16,
        "seconds": 8.0,
    }
    assert root.parent is None
    assert root.status.status_code is StatusCode.UNSET
    assert root.resource.attributes["service.name"] == "agentflow"


def test_a_model_call_tells_messages_parameters_and_tokens():
    call = exported(whole_run())["planner"]
    assert {name: value for name, value in call.attributes.items() if name != SpanAttributes.METADATA} == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: "LLM",
        SpanAttributes.LLM_MODEL_NAME: "qwen",
        SpanAttributes.LLM_INVOCATION_PARAMETERS: '{"temperature":0.7,"constrained":false}',
        SpanAttributes.LLM_PROMPT_TEMPLATE_VERSION: "fedcba9876543210",
        SpanAttributes.LLM_FINISH_REASON: "length",
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 100,
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: 60,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 20,
        SpanAttributes.LLM_TOKEN_COUNT_TOTAL: 120,
        SpanAttributes.OUTPUT_VALUE: "A plan",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You plan.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "What is asked?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "A plan",
    }
    assert json.loads(call.attributes[SpanAttributes.METADATA]) == {
        "role": "planner",
        "turn": 0,
        "policy": "planner@v3",
        "prompt_hash": "0123456789abcdef",
        "memory_chars": 900,
        "first_token_seconds": 0.25,
    }
    assert (call.start_time, call.end_time) == (1_700_000_003 * 10**9, 1_700_000_005 * 10**9)


def test_what_a_call_does_not_know_is_left_out():
    unknown = {"model": None, "sampling": None, "prompt_hash": None, "finish_reason": None, "usage": Usage(prompt=7)}
    call = exported(whole_run(turns=(), calls=(make_call("generator", -1, text="x", **unknown),)))["generator"]
    assert set(call.attributes) == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND,
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT,
        SpanAttributes.OUTPUT_VALUE,
        SpanAttributes.METADATA,
        "llm.output_messages.0.message.role",
        "llm.output_messages.0.message.content",
    }


def test_a_turn_tells_plan_verdict_and_faults():
    turn = exported(whole_run())["turn 1"]
    assert turn.attributes[SpanAttributes.OPENINFERENCE_SPAN_KIND] == "CHAIN"
    assert json.loads(turn.attributes[SpanAttributes.INPUT_VALUE])["sub_goal"] == "Find it"
    assert json.loads(turn.attributes[SpanAttributes.OUTPUT_VALUE]) == {"analysis": "It is there.", "stop": True}
    assert turn.attributes[SpanAttributes.INPUT_MIME_TYPE] == "application/json"
    [fault] = turn.events
    assert (fault.name, fault.timestamp) == ("exception", 1_700_000_011 * 10**9)
    assert fault.attributes == {"exception.type": "verifier fault", "exception.message": "There was no JSON."}


def test_a_tool_call_tells_arguments_result_and_how_it_failed():
    run = whole_run()
    first, second = [span for span in Projector().spans_of(run) if span.name == "search"]
    assert dict(first.attributes) == {
        SpanAttributes.OPENINFERENCE_SPAN_KIND: "TOOL",
        SpanAttributes.TOOL_NAME: "search",
        SpanAttributes.TOOL_PARAMETERS: '{"q":"ä"}',
        SpanAttributes.INPUT_VALUE: '{"q":"ä"}',
        SpanAttributes.INPUT_MIME_TYPE: "application/json",
        SpanAttributes.OUTPUT_VALUE: "found",
        SpanAttributes.METADATA: '{"status":"ok","cached":false,"repeated":false}',
    }
    assert first.status.status_code is StatusCode.UNSET
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "timeout: too")
    assert [span.start_time for span in (first, second)] == [1_700_000_007 * 10**9] * 2
    assert second.end_time == 1_700_000_009 * 10**9


def test_spans_hang_where_they_belong():
    run = whole_run()
    spans = exported(run)
    root, turn = spans["agentflow"].context.span_id, spans["turn 1"].context.span_id
    parents = {name: span.parent and span.parent.span_id for name, span in spans.items()}
    assert parents == {
        "agentflow": None,
        **dict.fromkeys(["analyzer", "generator", "turn 1"], root),
        **dict.fromkeys(["planner", "executor", "verifier", "search"], turn),
    }
    assert {span.context.trace_id for span in spans.values()} == {UUID(ID).int}


def test_a_failed_run_is_an_error_with_its_exception():
    run = whole_run(stop="FAILED", error="The server does not answer.", reward=None, reward_source=None)
    root = exported(run)["agentflow"]
    assert (root.status.status_code, root.status.description) == (StatusCode.ERROR, "The server does not answer.")
    [event] = root.events
    assert (event.name, event.timestamp) == ("exception", root.end_time)
    assert event.attributes == {"exception.type": "FAILED", "exception.message": "The server does not answer."}


def annotations(run: Trajectory) -> list[dict[str, object]]:
    found: dict[int, dict[str, object]] = {}
    for name, value in exported(run)["agentflow"].attributes.items():
        if name.startswith("trace.annotations."):
            _, _, index, field = name.split(".", 3)
            found.setdefault(int(index), {})[field] = value
    assert sorted(found) == list(range(len(found)))
    return [found[index] for index in range(len(found))]


@pytest.mark.parametrize(("source", "kind"), [("exact", "CODE"), ("judge", "LLM"), ("human", "HUMAN")])
def test_a_reward_is_an_annotation_of_the_trace(source, kind):
    assert annotations(whole_run(reward_source=source)) == [
        {
            "annotation.name": "reward",
            "annotation.score": 0.5,
            "annotation.annotator_kind": kind,
            "annotation.identifier": source,
        }
    ]


def test_feedback_is_annotations_of_a_person():
    remarks = [
        Feedback(at=1.5, verdict="good", note="well found", author="ada"),
        Feedback(at=2.5, answer="43"),
    ]
    person = {"annotation.annotator_kind": "HUMAN"}
    assert annotations(with_feedback(whole_run(), remarks)) == [
        {
            "annotation.name": "feedback",
            "annotation.label": "good",
            "annotation.score": 1.0,
            "annotation.explanation": "well found",
            "annotation.identifier": "1.5",
            "annotation.metadata": '{"at":1.5,"author":"ada"}',
        }
        | person,
        {
            "annotation.name": "right answer",
            "annotation.explanation": "43",
            "annotation.identifier": "2.5",
            "annotation.metadata": '{"at":2.5}',
        }
        | person,
    ]


def test_a_fork_links_to_the_run_it_was_forked_from():
    parent = "0198c5a2-7e57-7b3c-9f00-000000000000"
    root = exported(whole_run(parent=parent, parent_turns=1))["agentflow"]
    [link] = root.links
    original = exported(whole_run(id=parent))["agentflow"]
    assert (link.context.trace_id, link.context.span_id) == (original.context.trace_id, original.context.span_id)
    assert json.loads(root.attributes[SpanAttributes.METADATA])["parent"] == parent


def test_who_sends_a_run_twice_sends_the_same_spans():
    def dumped():
        return [span.to_json() for span in Projector().spans_of(realistic(7))]

    assert dumped() == dumped()
    projector = Projector()
    projector.spans_of(realistic(8))
    ids = [span.context for span in projector.spans_of(realistic(7))]
    assert ids == [span.context for span in Projector().spans_of(realistic(7))]


@pytest.mark.parametrize("name", ["run-1", "00000000-0000-0000-0000-000000000000", "ü"])
def test_ids_that_are_no_uuid_have_a_trace_too(name):
    assert 0 < trace_id(name) < 2**128
    assert trace_id(name) == trace_id(name) != trace_id(name + "x")
    assert span_id(name, "run") != span_id(name, "turn/0")


def test_long_prompts_are_whole():
    messages = tuple({"role": "user", "content": f"message {number}"} for number in range(500))
    run = whole_run(turns=(), calls=(make_call("generator", -1, messages=messages),))
    call = exported(run)["generator"]
    assert call.attributes["llm.input_messages.499.message.content"] == "message 499"
    assert call.dropped_attributes == 0


def test_half_characters_and_numbers_that_json_lacks_do_not_cost_an_attribute():
    result = Observation(tool="t", arguments={"q": "\ud800", "n": float("nan")}, status="error", content="a\udc00b")
    run = whole_run(turns=(Turn(observations=(result,)),), calls=())
    [span] = [span for span in wire(run) if span.name == "t"]
    attributes = values(span.attributes)
    assert json.loads(attributes["tool.parameters"]) == {"q": "\ufffd", "n": None}
    assert attributes["output.value"] == "a\ufffdb"


def wire(run: Trajectory):
    """The spans as they go over the wire."""
    request = encode_spans(Projector().spans_of(run))
    received = type(request).FromString(request.SerializeToString())
    return [span for resource in received.resource_spans for scope in resource.scope_spans for span in scope.spans]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trajectories())
def test_any_trajectory_goes_over_the_wire_whole(run):
    spans = wire(run)
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    calls = {span.span_id: span for span in spans if values(span.attributes)["openinference.span.kind"] == "LLM"}
    assert len(calls) == len(run.calls)
    for index, call in enumerate(run.calls):
        span = calls[span_id(run.id, f"call/{index}").to_bytes(8, "big")]
        found = values(span.attributes)
        sent = [
            {
                "role": found[f"llm.input_messages.{n}.message.role"],
                "content": found[f"llm.input_messages.{n}.message.content"],
            }
            for n in range(len(call.messages or ()))
        ]
        assert span.name == call.role
        assert sent == list(call.messages or ())
        assert found["llm.output_messages.0.message.content"] == call.text
        assert found.get("llm.token_count.prompt") == call.usage.prompt
        assert found.get("llm.token_count.completion") == call.usage.completion
        assert found.get("llm.token_count.prompt_details.cache_read") == call.usage.cached
        assert found.get("llm.model_name") == call.model
        assert found.get("llm.finish_reason") == call.finish_reason
    tools = [span for span in spans if values(span.attributes)["openinference.span.kind"] == "TOOL"]
    assert len(tools) == sum(len(turn.observations) for turn in run.turns)
    by_id = {span.span_id: span for span in spans}
    for span in spans:
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_every_attribute_has_a_name_of_the_convention():
    run = with_feedback(whole_run(), [Feedback(at=1.0, verdict="bad", note="no", answer="43", author="ada")])
    for span in exported(run).values():
        for name in span.attributes:
            plain = [part for part in name.split(".") if not part.isdigit()]
            whole, tail = ".".join(plain), ".".join(plain[-2:])
            assert whole in NAMES or (tail in NAMES and ".".join(plain[:-2]) in NAMES), name


def test_spans_of_the_program_around_it_are_left_alone():
    before = global_trace.get_tracer_provider()
    theirs = TracerProvider(shutdown_on_exit=False).get_tracer("theirs")
    with theirs.start_as_current_span("theirs") as outer:
        root = exported(whole_run())["agentflow"]
        assert root.parent is None
        assert root.context.trace_id != outer.get_span_context().trace_id
    assert global_trace.get_tracer_provider() is before
