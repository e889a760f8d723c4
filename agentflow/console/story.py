"""A run as a story for people: one row for each thing that happened, and what the model is writing below them."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from rich.text import Text

from agentflow.console.row import Row
from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, one_line, seconds, short_id, shorten
from agentflow.console.writing import Writing
from graph.events import Event, EventKind

_RESULT_LINES, _RESULT_CHARS = 8, 700
_ENDINGS = {
    "VERIFIED": "verified",
    "MAX_TURNS": "all turns were used",
    "MAX_SECONDS": "the time was up",
    "MAX_TOKENS": "the tokens were used up",
    "CANCELLED": "stopped",
    "FAILED": "failed",
}


class Story:
    """Prints events as rows. On a terminal, what a model is writing shows below them until its row is there."""

    def __init__(self, console: PlainConsole, *, stream: bool, verbose: bool) -> None:
        self.run: str | None = None
        self._console = console
        self._verbose = verbose
        self._writing = Writing(console) if stream and console.live else None
        self._asked: str | None = None
        self._turn = -1
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._several = False
        self._resumed = False
        self._handlers: dict[EventKind, Callable[[Event], None]] = {
            EventKind.RUN: self._on_run,
            EventKind.NOTICE: lambda event: self._row("", str(event.data["text"]), style="dim"),
            EventKind.MODULE: self._on_module,
            EventKind.TOKEN: self._on_token,
            EventKind.CALL: self._on_call,
            EventKind.ANALYSIS: self._on_analysis,
            EventKind.PLAN: self._on_plan,
            EventKind.COMMAND: self._on_command,
            EventKind.TOOL: self._on_tool,
            EventKind.OBSERVATION: self._on_observation,
            EventKind.VERDICT: self._on_verdict,
            EventKind.FAULT: self._on_fault,
            EventKind.ANSWER: self._on_answer,
            EventKind.DONE: self._on_done,
        }

    def __enter__(self) -> Self:
        """Begin to show what is written."""
        if self._writing:
            self._writing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing but the rows."""
        if self._writing:
            self._writing.stop()

    def opening(self, question: str | None, /) -> None:
        """Print the question before anything is loaded."""
        if question is not None:
            self._asked = question
            self._row("question", shorten(clean(question), lines=20, chars=2_000), style="bold")
        if self._writing:
            self._writing.begin("opening models and tools")

    def __call__(self, event: Event, /) -> None:
        """Print an event."""
        self._handlers[event.kind](event)

    def broke_off(self, _stop: str, _sentence: str, /) -> None:
        """Take away what was being written."""
        if self._writing:
            self._writing.stop()

    def _row(self, label: str, body: str, *, note: str = "", style: str = "", role: str | None = None) -> None:
        """Print a row; `role` is the module whose latest call made it."""
        call = self._calls.pop(role, None) if role else None
        if call:
            note = "" if call["seconds"] is None else seconds(call["seconds"])
            if (policy := call.get("policy")) and policy != call["model"]:
                note = " · ".join(filter(None, [str(policy), note]))
        detail = _tokens(call) if call and self._verbose else ""
        Row(label, body, note, detail, style).print(self._console)

    def _on_run(self, event: Event) -> None:
        self.run = str(event.data["id"])
        if self._asked is None:
            self.opening(str(event.data["question"]))
        if event.data["resumed"]:
            self._resumed = True
            self._row("", f"going on with run {self.run}", style="dim")
        if self._writing:
            self._writing.begin("starting")

    def _on_module(self, event: Event) -> None:
        if self._writing:
            self._writing.begin(str(event.data["module"]))

    def _on_token(self, event: Event) -> None:
        if self._writing:
            self._writing.add(str(event.data["module"]), str(event.data["text"]))

    def _on_call(self, event: Event) -> None:
        self._calls[str(event.data["role"])] = event.data

    def _on_analysis(self, event: Event) -> None:
        data = event.data
        lines = [str(data["summary"])]
        if data.get("question"):
            lines.append(f"asked as: {data['question']}")
        if self._verbose:
            lines += [f"{name}: {data[name]}" for name in ("skills", "considerations") if data[name]]
            lines += [f"tools: {', '.join(data['tools'])}"] if data["tools"] else []
        self._row("analysis", "\n".join(lines), role="analyzer")

    def _open_turn(self, event: Event) -> None:
        if event.turn > self._turn:
            self._turn = event.turn
            self._console.print(Text(f"\nTurn {event.turn + 1}", style="bold"))

    def _on_plan(self, event: Event) -> None:
        self._open_turn(event)
        data = event.data
        lines = [f"{one_line(data['sub_goal'])} → {data['tool']}"]
        if self._verbose:
            lines += [f"{name}: {one_line(data[name])}" for name in ("justification", "context") if data[name]]
        self._row("plan", "\n".join(lines), role="planner")

    def _on_command(self, event: Event) -> None:
        self._several = len(event.data["calls"]) > 1

    def _on_tool(self, event: Event) -> None:
        data = event.data
        label = f"call {data['index'] + 1}" if self._several else "call"
        self._row(label, call_text(data["tool"], data["arguments"]), role="executor")
        if self._writing:
            self._writing.begin(f"{data['tool']} is running")

    def _on_observation(self, event: Event) -> None:
        data = event.data
        label = {"ok": "result", "error": "error", "timeout": "timeout"}[data["status"]]
        if self._several:
            label = f"{label} {data['index'] + 1}"
        notes = [] if data["seconds"] is None else [seconds(data["seconds"])]
        notes += [said for name, said in (("cached", "from the cache"), ("repeated", "run again")) if data[name]]
        text = clean(data["content"])
        if not self._verbose:
            text = shorten(text, lines=_RESULT_LINES, chars=_RESULT_CHARS)
        self._row(label, text, note=" · ".join(notes), style="" if data["status"] == "ok" else "yellow")

    def _on_verdict(self, event: Event) -> None:
        data = event.data
        text = f"{'enough to answer' if data['stop'] else 'go on'}: {one_line(data['analysis'])}".rstrip(": ")
        self._row("verdict", text, role="verifier")

    def _on_fault(self, event: Event) -> None:
        data = event.data
        if data["module"] == "planner":
            self._open_turn(event)
        text = f"the {data['module']}'s output could not be used: {data['message']}"
        if self._verbose and data["output"]:
            text += f"\n{data['output']}"
        self._row("fault", text, role=data["module"], style="yellow")

    def _on_answer(self, event: Event) -> None:
        data = event.data
        self._console.print()
        if solution := data["solution"].strip():
            self._row("solution", solution, role="generator")
        self._row("answer", data["answer"], role="generator", style="bold green")

    def _on_done(self, event: Event) -> None:
        if self._writing:
            self._writing.stop()
        data = event.data
        turns = self._turn + 1
        parts = ["ending unknown" if data["stop"] is None else _ENDINGS.get(str(data["stop"]), str(data["stop"]))]
        if turns:
            parts.append(f"{turns} turn{'' if turns == 1 else 's'}")
        elif data["stop"] == "MAX_TURNS" and not self._resumed:
            parts = ["answered directly"]
        parts += [] if data["seconds"] is None else [seconds(data["seconds"])]
        parts.append(f"run {short_id(str(data['id']))}")
        self._row("", " · ".join(parts), style="dim")


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """Write a call as Python would; an argument of several lines stands below."""
    short = {name: value for name, value in arguments.items() if not (isinstance(value, str) and "\n" in value)}
    inside = ", ".join(f"{name}={one_line(repr(value))}" for name, value in short.items())
    long = [clean(str(value)).strip("\n") for name, value in arguments.items() if name not in short]
    return "\n".join([f"{tool}({inside})" if inside or not long else tool, *long])


def _tokens(call: Mapping[str, Any]) -> str:
    """Say what the server had to read and write for a call, as far as it counts."""
    usage, first = call["usage"], call.get("first_token_seconds")
    parts = [] if first is None else [f"first token after {seconds(first)}"]
    if usage["prompt"] is not None and usage["completion"] is not None:
        cached = usage["cached"] or 0
        parts.append(f"prompt {usage['prompt'] - cached} read + {cached} cached, {usage['completion']} written")
    return " · ".join(parts)
