"""Model calls as they were made: the exact messages, text, token ids and log-probabilities."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from agentflow.console.terminal import PlainConsole
from agentflow.console.text import clean, moment, one_line
from graph.records import Usage
from graph.trace import TracedCall
from graph.traces.place import messages_match


def print_raw(console: PlainConsole, calls: Sequence[TracedCall]) -> None:
    """Print everything that is recorded of calls; what is missing is said. Control characters are left out."""
    if not calls:
        console.print(Text("No model call is recorded here.", style="dim"))
    for number, call in enumerate(calls):
        if number:
            console.print()
        _print_call(console, call)


def _print_call(console: PlainConsole, call: TracedCall) -> None:
    where = f"turn {call.turn + 1}" if call.turn >= 0 else None
    policy = call.policy if call.policy != call.model else None
    told = [call.role, where, call.model, policy, moment(call.at, to_seconds=True)]
    console.print(Text(" · ".join(one_line(part) for part in told if part), style="bold"), soft_wrap=True)
    for message in call.messages or ():
        _section(console, message["role"], message["content"])
    if call.messages is None:
        _section(console, "messages", "", missing=_no_messages(call))
    _section(console, "text", call.text, missing="" if call.text else "empty")
    _ids(console, call)
    for label, text in _facts(call):
        console.print(Text.assemble((f"── {label}: ", "cyan"), clean(text)), soft_wrap=True)


def _section(console: PlainConsole, label: str, body: str, *, missing: str = "") -> None:
    console.print(Text(f"── {label}", style="cyan"))
    console.print(Text(missing, style="dim") if missing else Text(clean(body)), soft_wrap=True)


def _no_messages(call: TracedCall) -> str:
    if call.prompt_hash is None:
        return "not recorded"
    return "they cannot be rendered as they were sent: the prompts are of another version"


def _ids(console: PlainConsole, call: TracedCall) -> None:
    """Print ids as the server gave them: what text a token stands for is not recorded, and is not guessed."""
    if call.prompt_ids is None:
        _section(console, "prompt ids", "", missing="the server returned no token ids")
    else:
        ids = " ".join(map(str, call.prompt_ids))
        _section(console, f"prompt ids ({len(call.prompt_ids):,})", ids, missing="" if ids else "none")
    if call.completion_ids is None:
        _section(console, "completion ids", "", missing="the server returned no token ids")
        return
    what = (
        "completion ids, without log-probabilities" if call.logprobs is None else "completion ids and log-probabilities"
    )
    lines = "\n".join(_lines(call.completion_ids, call.logprobs))
    _section(console, f"{what} ({len(call.completion_ids):,})", lines, missing="" if lines else "none")


def _lines(ids: Sequence[int], logprobs: Sequence[float] | None) -> Iterator[str]:
    for place, token in enumerate(ids):
        yield f"{place:>6} {token:>8}" + ("" if logprobs is None else f" {logprobs[place]!r:>24}")


def _facts(call: TracedCall) -> Iterator[tuple[str, str]]:
    yield "sampling", "not recorded" if call.sampling is None else _pairs(call.sampling) or "nothing was asked for"
    yield "usage", _usage(call.usage)
    yield "finish reason", call.finish_reason or "not recorded"
    spent = "not recorded" if call.seconds is None else f"{call.seconds:g} s"
    first = call.first_token_seconds
    yield "time", spent if first is None else f"{spent}, the first token after {first:g} s"
    if call.memory_chars is not None:
        yield "memory", f"shortened to {call.memory_chars:,} characters of plain prose, so that the prompt fitted"
    matches = {
        True: "the messages match it",
        False: "the messages do NOT match it",
        None: "there is nothing to compare",
    }
    known = call.prompt_hash and f"{call.prompt_hash}: {matches[messages_match(call)]}"
    yield "prompt hash", known or "not recorded"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _usage(usage: Usage) -> str:
    names = {"prompt": usage.prompt, "cached": usage.cached, "written": usage.completion}
    told = [f"{count:,} {name}" for name, count in names.items() if count is not None]
    return ", ".join(told) or "the server did not say"
