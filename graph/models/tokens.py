"""How many tokens a prompt takes: a bound that needs no request, and the server's own count."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from graph.models.server import ServerInfo
from graph.prompt import Message, hash_messages

_COUNT_SECONDS = 10.0
_PER_MESSAGE = 16
_AROUND = 64
"""What a chat template may add to each message and to all of them: marks, names of roles, a date."""
_LINE_END = 2
_REMEMBERED = 256
_TEMPLATE_FIELDS = ("chat_template", "chat_template_kwargs")
"""Fields of a request's `extra` that change how messages become a prompt."""


def most_tokens(messages: Sequence[Message]) -> int:
    """Return a number of tokens that the messages never exceed: a token is at least one byte of UTF-8.

    It holds for byte-level tokenizers and for those that fall back to bytes, which chat models have.
    """
    return _AROUND + sum(_PER_MESSAGE + _bytes(message["content"]) for message in messages)


def most_tokens_after(messages: Sequence[Message], before: Sequence[Message], counted: int) -> int:
    """Return such a number for messages that have lines in common with others, whose tokens were counted.

    No token but of blanks reaches beyond the end of a line, so that lines that were counted take no more tokens in
    another place, but for those ends. A role's prompts differ from call to call in a few lines of its memory.
    """
    lines, old = _lines(messages), _lines(before)
    fresh = sum(_bytes(line) * count for line, count in (lines - old).items())
    return counted + fresh + _LINE_END * lines.total() + _PER_MESSAGE * (1 + max(0, len(messages) - len(before)))


def _lines(messages: Sequence[Message]) -> Counter[str]:
    return Counter(line for message in messages for line in message["content"].split("\n"))


def _bytes(text: str) -> int:
    if text.isascii():
        return len(text)
    # Some tokenizers compose characters first, which makes a few of them longer.
    return max(len(text.encode("utf-8", "replace")), len(unicodedata.normalize("NFC", text).encode("utf-8", "replace")))


class TokenCounter:
    """Counts with the tokenizer and the chat template of one model on one server."""

    def __init__(
        self,
        server: ServerInfo,
        model: str,
        http: httpx.AsyncClient,
        *,
        key: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`extra` are the further fields of the model's requests; an adapter is counted by its base `model`."""
        self._kind = server.kind
        self._model = model
        self._http = http
        self._root = server.base_url.rstrip("/").removesuffix("/v1")
        # llama.cpp closes one kept-alive connection in forty without a word.
        self._headers = {"Connection": "close"} if server.kind == "llamacpp" else {}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._template = {name: value for name, value in (extra or {}).items() if name in _TEMPLATE_FIELDS}
        self._known: dict[str, int] = {}

    async def count(self, messages: Sequence[Message]) -> int | None:
        """Return the tokens of the prompt that the messages become; None where the server does not tell now."""
        key = hash_messages(messages)
        if key not in self._known:
            try:
                counted = await (self._of_vllm(messages) if self._kind == "vllm" else self._of_llamacpp(messages))
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                return None
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = counted
        return self._known[key]

    async def _of_vllm(self, messages: Sequence[Message]) -> int:
        body = {"model": self._model, "messages": list(messages), "add_generation_prompt": True, **self._template}
        return int((await self._post("/tokenize", body))["count"])

    async def _of_llamacpp(self, messages: Sequence[Message]) -> int:
        # The name is for a server in front of several models.
        body = {"model": self._model, "messages": list(messages), **self._template}
        prompt = (await self._post("/apply-template", body))["prompt"]
        body = {"model": self._model, "content": prompt, "add_special": True, "parse_special": True}
        return len((await self._post("/tokenize", body))["tokens"])

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        response = await self._http.post(
            f"{self._root}{path}", json=body, headers=self._headers, timeout=_COUNT_SECONDS
        )
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer


def counter_for(
    server: ServerInfo, model: str, http: httpx.AsyncClient, *, key: str | None, extra: Mapping[str, Any]
) -> TokenCounter | None:
    """Return what counts for a model on this server; None where no server of its kind counts."""
    return None if server.kind == "other" else TokenCounter(server, model, http, key=key, extra=extra)
