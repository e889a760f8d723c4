"""Keys and passwords that this process holds: kept out of everything that is stored, shown or sent on.

They are replaced where text comes in: questions, what models write, what tools return, and error messages. A prompt is
made of that text, so it never holds one, nor do its token ids.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from graph.secret_names import names_secret
from graph.texts import map_texts

if TYPE_CHECKING:
    from graph.config import FlowConfig

HIDDEN: Final = "[key]"
"""Stands in place of a secret."""
SHORTEST: Final = 8
"""Characters. Shorter values are not searched for: they would tear up ordinary text."""
_PLACEHOLDERS = frozenset({"password", "postgres", "changeme", "placeholder", "not-needed", "agentflow"})
"""What people write where a key is asked for and none is needed."""
_PROVIDERS = (
    "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY", "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "HF_TOKEN", "HUGGINGFACEHUB_API_TOKEN",
    "MISTRAL_API_KEY", "NVIDIA_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "PPLX_API_KEY", "TOGETHER_API_KEY",
    "UPSTAGE_API_KEY", "WATSONX_API_KEY", "WATSONX_APIKEY", "XAI_API_KEY",
)  # fmt: skip
"""Variables that LangChain's providers read by themselves."""
_ALWAYS = ("TAVILY_API_KEY", "VLLM_API_KEY")
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
"""Variables of OpenTelemetry: `name=value,name=value`."""
_HARMLESS = re.compile(
    r"accept.*|content-type|user-agent|host|.*path|home|user|shell|lang|lc_.*|tz|.*_(?:url|host|level|dir|file|home)",
    re.IGNORECASE,
)
"""Names in an MCP server's `env` and `headers` under which no key stands."""
_NAMED_VALUE = re.compile(r"(?:^|[?&\s])([\w.-]+)=([^&\"\s]+)")

_ESCAPE = re.compile(r"\\u(00[0-7][0-9a-fA-F])")

T = TypeVar("T")


class KnownSecrets:
    """Replaces known values in text. Compiled once; without values nothing is searched."""

    def __init__(self, values: Iterable[str]) -> None:
        """Values that are too short or mere placeholders are left out."""
        kept = {value for value in values if len(value) >= SHORTEST and value.lower() not in _PLACEHOLDERS}
        forms = {form for value in kept for form in _forms(value)}
        self.forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        """How they may stand in a text, the longest first."""
        self.pattern = re.compile("|".join(map(re.escape, self.forms))) if forms else None
        """Finds any of them; None where there are none."""

    @classmethod
    def of(cls, config: "FlowConfig") -> "KnownSecrets":
        """Collect what `config` names and holds: variables of keys, keys of MCP servers, passwords in addresses."""
        names = {*_variables(config)}
        values = {os.environ.get(name, "").strip() for name in names}
        tools = config.tools
        addresses = (
            config.storage.url,
            config.traces.otlp_endpoint,
            tools.web_search.base_url,
            tools.wikipedia.api_url,
        )
        values |= {value for address in addresses for value in _in_address(address or "")}
        values |= {value for name in _HEADERS for value in _in_headers(os.environ.get(name, ""))}
        for server in tools.mcp.values():
            values |= set(_in_table(server))
        return cls(values)

    def __bool__(self) -> bool:
        return self.pattern is not None

    def including(self, values: Iterable[str]) -> "KnownSecrets":
        """Return these and more."""
        more = tuple(values)
        return KnownSecrets((*self.forms, *more)) if more else self

    def hide(self, text: str) -> str:
        """Return `text` with `[key]` in place of every secret."""
        if self.pattern is None or not any(form in text for form in self.forms):  # five times as quick as the pattern
            return text
        return self.pattern.sub(HIDDEN, text)

    def hide_written(self, text: str) -> str:
        r"""Hide secrets in a model's text, also where it is JSON that spells one with escapes such as `\u0041`."""
        hidden = self.hide(text)
        if self.pattern is not None and "\\u" in hidden:
            plain = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), hidden)
            if self.pattern.search(plain):
                return self.hide(plain)
        return hidden

    def hide_all(self, value: T) -> T:
        """Return a record, or plain JSON, with every secret in its texts replaced; the same object without one."""
        return value if self.pattern is None else map_texts(value, self.hide)

    def stream(self) -> "HidingStream":
        """Return what hides secrets in a text that comes in pieces."""
        return HidingStream(self)


class HidingStream:
    """Holds back the end of a text for as long as a secret may begin there."""

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._held = ""
        self._longest = max(map(len, secrets.forms), default=0)
        self._firsts = frozenset(form[0] for form in secrets.forms)

    def add(self, piece: str) -> str:
        """Return what can be shown after `piece` has come."""
        pattern = self._secrets.pattern
        if pattern is None:
            return piece
        text, shown, at = self._held + piece, "", 0
        last = range(max(0, len(text) - self._longest), len(text))
        beginnings = [place for place in last if self._may_begin(text, place)]
        while True:
            begins = next((place for place in beginnings if place >= at), len(text))
            match = pattern.search(text, at)
            if match is None or match.start() >= begins:
                self._held = text[begins:]
                return shown + text[at:begins]
            shown += text[at : match.start()] + HIDDEN
            at = match.end()

    def end(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return self._secrets.hide(held)

    def _may_begin(self, text: str, place: int) -> bool:
        """Whether a secret may begin there that has not come to its end."""
        if text[place] not in self._firsts:
            return False
        rest = text[place:]
        return any(form.startswith(rest) and form != rest for form in self._secrets.forms)


def _forms(value: str) -> Iterator[str]:
    """Yield a value as text, JSON and addresses write it."""
    yield value
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    yield quote(value, safe="")
    yield quote_plus(value)


def _variables(config: "FlowConfig") -> Iterator[str]:
    from graph.config import ROLES  # the configuration reads settings that are made of what this module needs

    yield from _ALWAYS
    roles = [config.models.of(role) for role in ROLES]
    yield from (name for name in (*(role.api_key_env for role in roles), config.serve.api_key_env) if name)
    for role in roles:
        if role.base_url is None and not role.embedded:
            yield from _PROVIDERS
            yield f"{re.sub(r'[^A-Z0-9]+', '_', role.model.partition(':')[0].upper())}_API_KEY"
    if "://" in config.storage.url:
        yield "PGPASSWORD"


def _in_address(text: str) -> Iterator[str]:
    """Yield the password and the keys of an address, as they are and as they are written."""
    try:
        parts = urlsplit(text)
        password, user, host = parts.password, parts.username, parts.hostname
    except ValueError:
        return
    if password and unquote(password) not in {user, host, parts.path.strip("/")}:  # else it stands beside itself
        yield from (password, unquote(password))
    yield from (value for name, value in parse_qsl(parts.query) if names_secret(name))


def _in_headers(text: str) -> Iterator[str]:
    """Yield the values of `name=value,name=value` that are keys."""
    pairs = (pair.partition("=") for pair in text.split(","))
    yield from _in_table({"headers": {name.strip(): unquote(value.strip()) for name, _, value in pairs}})


def _in_table(value: Any, *, name: str = "", keys: bool = False) -> Iterator[str]:
    """Yield the keys in an MCP server's settings: in `env` and `headers`, under names of keys, and after flags."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _in_table(inner, name=str(key), keys=keys or key in {"env", "headers"})
    elif isinstance(value, list | tuple):
        for before, item in zip(["", *value], value, strict=False):
            flag = isinstance(before, str) and before.startswith("-") and "=" not in before and names_secret(before)
            yield from _in_table(item, name=str(before) if flag else "", keys=False)
    elif isinstance(value, str):
        yield from _in_text(value, secret=names_secret(name) or (keys and not _HARMLESS.fullmatch(name)))


def _in_text(text: str, *, secret: bool) -> Iterator[str]:
    if "://" in text:
        yield from _in_address(text)
    elif secret:
        yield text.strip()
        yield text.split()[-1] if text.split() else ""  # "Bearer …"
    yield from (found for name, found in _NAMED_VALUE.findall(text) if names_secret(name))


NO_SECRETS: Final = KnownSecrets(())
"""Hides nothing."""
