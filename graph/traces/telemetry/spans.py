"""Makes a trajectory the spans of one trace.

agentflow            AGENT: the question, the answer, the session
├── analyzer         LLM
├── turn 1           CHAIN: the plan, the verdict, faults as events
│   ├── planner      LLM
│   ├── executor     LLM
│   ├── the tool     TOOL, one for each call of it
│   └── verifier     LLM
└── generator        LLM
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.semconv.attributes.exception_attributes import EXCEPTION_MESSAGE, EXCEPTION_TYPE
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from graph.records import Observation, StopReason, Turn
from graph.trace import Trajectory
from graph.traces.telemetry.annotations import annotation_attributes
from graph.traces.telemetry.attributes import (
    Attributes,
    call_attributes,
    run_attributes,
    text,
    tool_attributes,
    turn_attributes,
)
from graph.traces.telemetry.ids import ROOT, NextIds, span_id, trace_id
from graph.traces.telemetry.timeline import Interval, Timeline, timeline_of

SERVICE: Final = "agentflow"
_ALL: Final = SpanLimits.UNSET
_EVENT: Final = "exception"


class Projector:
    """Makes spans, one trajectory after another; of use to one thread at a time.

    Its tracer is its own: the tracer provider that a program may have set for itself is left alone.
    """

    def __init__(self) -> None:
        self._ids = NextIds()
        self._ended = _Ended()
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({SERVICE_NAME: SERVICE}),
            shutdown_on_exit=False,
            id_generator=self._ids,
            # By default an SDK keeps 128 attributes a span, which a long prompt's messages exceed.
            span_limits=SpanLimits(
                max_attributes=_ALL,
                max_events=_ALL,
                max_links=_ALL,
                max_span_attributes=_ALL,
                max_event_attributes=_ALL,
                max_link_attributes=_ALL,
            ),
        )
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(SERVICE, version("agentflow"))

    def spans_of(self, trajectory: Trajectory) -> list[ReadableSpan]:
        """Return the trajectory's spans, each after those within it; none where OTEL_SDK_DISABLED is true."""
        times = timeline_of(trajectory)
        self._ids.trace = trace_id(trajectory.id)
        attributes = run_attributes(trajectory) | annotation_attributes(trajectory)
        root = self._start(trajectory, ROOT, SERVICE, times.run, attributes)
        turns = [
            self._start(trajectory, f"turn/{index}", f"turn {index + 1}", when, turn_attributes(turn, index), root)
            for index, (turn, when) in enumerate(zip(trajectory.turns, times.turns, strict=True))
        ]
        for index, (call, when) in enumerate(zip(trajectory.calls, times.calls, strict=True)):
            parent = turns[call.turn] if call.turn >= 0 else root
            described = call_attributes(call, trajectory.prompts)
            self._start(trajectory, f"call/{index}", call.role, when, described, parent).end(when.end)
        for index, (turn, span) in enumerate(zip(trajectory.turns, turns, strict=True)):
            self._end_tools(trajectory, index, span, times.tools[index])
            _tell_faults(span, turn, index, trajectory, times)
            span.end(times.turns[index].end)
        if trajectory.stop is StopReason.FAILED:
            _fail(root, trajectory.error, times.run.end)
        root.end(times.run.end)
        return self._ended.take()

    def _start(
        self,
        trajectory: Trajectory,
        path: str,
        name: str,
        when: Interval,
        attributes: Attributes,
        parent: Span | None = None,
    ) -> Span:
        self._ids.span = span_id(trajectory.id, path)
        # An empty context: a span that the caller may have under way is no part of this trace.
        context = Context() if parent is None else set_span_in_context(parent, Context())
        links = [_link(trajectory.parent)] if parent is None and trajectory.parent else ()
        return self._tracer.start_span(text(name), context, attributes=attributes, links=links, start_time=when.start)

    def _end_tools(self, trajectory: Trajectory, turn: int, parent: Span, times: tuple[Interval, ...]) -> None:
        for index, (result, when) in enumerate(zip(trajectory.turns[turn].observations, times, strict=True)):
            path = f"turn/{turn}/tool/{index}"
            span = self._start(trajectory, path, result.tool, when, tool_attributes(result), parent)
            if result.status != "ok":
                span.set_status(Status(StatusCode.ERROR, _why(result)))
            span.end(when.end)


class _Ended(SpanProcessor):
    """Keeps the spans that have ended until they are taken."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span."""
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        """Return what was kept."""
        taken, self._spans = self._spans, []
        return taken


def _link(trajectory: str) -> Link:
    """Return a link to the trace that a trajectory was forked from."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return Link(SpanContext(trace_id(trajectory), span_id(trajectory, ROOT), is_remote=True, trace_flags=flags))


def _tell_faults(span: Span, turn: Turn, index: int, trajectory: Trajectory, times: Timeline) -> None:
    """Add the turn's faults as events, each when the module's last call of the turn had ended."""
    ends = {call.role: when.end for call, when in zip(trajectory.calls, times.calls, strict=True) if call.turn == index}
    for fault in turn.faults:
        happened: Mapping[str, str] = {EXCEPTION_TYPE: f"{fault.module} fault", EXCEPTION_MESSAGE: text(fault.message)}
        span.add_event(_EVENT, happened, timestamp=ends.get(fault.module, times.turns[index].end))


def _fail(root: Span, error: str | None, at: int) -> None:
    why = text(error) if error else "the run failed"
    root.set_status(Status(StatusCode.ERROR, why))
    root.add_event(_EVENT, {EXCEPTION_TYPE: StopReason.FAILED.value, EXCEPTION_MESSAGE: why}, timestamp=at)


def _why(result: Observation) -> str:
    first = (result.content.splitlines() or [""])[0]
    return text(f"{result.status}: {first}")
