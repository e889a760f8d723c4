"""One role's model: sends messages, streams tokens, and returns what there is to know about the call."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk

from graph.config import ModelConfig, Role
from graph.deadline import Deadline
from graph.errors import ModelError
from graph.models.server import ServerInfo
from graph.plain import plain_text
from graph.prompt import Message, hash_messages
from graph.prompt_ids import shared_length
from graph.records import ModelCall, Usage

if TYPE_CHECKING:
    import openai

OnToken = Callable[[str], None]


@dataclass
class _Stream:
    """What has arrived of one answer."""

    text: list[str] = field(default_factory=list)
    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    first_token: float | None = None
    answered: bool = False
    """The server has accepted the request: a failure from here on is one of the stream."""

    @property
    def complete(self) -> bool:
        """Whether the server said that it was done; a connection may end in mid-answer without an error."""
        return self.finish_reason is not None or self.usage.completion is not None

    def add(self, chunk: AIMessageChunk) -> str:
        """Take in a chunk and return its text."""
        extras = chunk.response_metadata
        if (ids := extras.get("prompt_token_ids")) is not None:
            self.prompt_ids = list(ids)
        if (ids := extras.get("token_ids")) is not None:
            self.completion_ids = [*(self.completion_ids or ()), *ids]
        if logprobs := (extras.get("logprobs") or {}).get("content"):
            self.logprobs = [*(self.logprobs or ()), *(token["logprob"] for token in logprobs)]
        self.finish_reason = extras.get("finish_reason") or self.finish_reason
        if usage := chunk.usage_metadata:
            cached = (usage.get("input_token_details") or {}).get("cache_read")
            self.usage = Usage(prompt=usage["input_tokens"], completion=usage["output_tokens"], cached=cached)
        if timings := extras.get("timings"):
            fresh, cached, new = (timings.get(name) or 0 for name in ("prompt_n", "cache_n", "predicted_n"))
            self.usage = Usage(prompt=fresh + cached, cached=cached, completion=new)
        text = str(chunk.text)
        self.text.append(text)
        return text


_current: ContextVar[_Stream] = ContextVar("_current")


async def note_answer(response: httpx.Response) -> None:
    """Note that a request was accepted: a response hook of the HTTP client that the models share."""
    if response.is_success and (stream := _current.get(None)):
        stream.answered = True


class RoleModel:
    """The model of one role. Safe to share between runs; keeps nothing of them."""

    def __init__(
        self,
        role: Role,
        config: ModelConfig,
        chat: BaseChatModel,
        server: ServerInfo | None,
        *,
        secret: str | None = None,
    ) -> None:
        """`secret` is the role's key, which servers like to repeat in their errors: it is kept out of ours."""
        self.role = role
        self.config = config
        self._chat = chat
        self._server = server
        self._secret = secret

    @property
    def constrained(self) -> bool:
        """Whether calls are decoded under the role's JSON schema."""
        if self.config.structured == "auto":
            return not (self.role == "planner" and self.returns_ids)
        return self.config.structured == "json_schema"

    @property
    def returns_ids(self) -> bool:
        """Whether the server returns the ids of the tokens that it sampled."""
        return self._server is not None and self._server.kind == "vllm"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None,
        deadline: Deadline,
        turn: int,
        on_token: OnToken | None = None,
        previous_ids: Sequence[int] = (),
    ) -> ModelCall:
        """Make one call.

        Args:
            messages: as rendered.
            schema: JSON Schema of what the role must return; None for free text.
            deadline: cancels the call with OutOfTimeError.
            turn: goes into the record.
            on_token: called with each piece of text as it arrives.
            previous_ids: prompt ids of the role's previous call in this run; the record keeps only the difference.

        Raises:
            ModelError: the server failed after its retries, or refused the request.
        """
        constrained = schema is not None and self.constrained
        stream = _Stream()
        at, start = time.time(), time.monotonic()
        async with deadline.limit(), self._errors(stream):
            _current.set(stream)
            async for chunk in self._chat.astream(
                [dict(m) for m in messages], **self._body(schema if constrained else None)
            ):
                if stream.first_token is None and chunk.text:
                    stream.first_token = time.monotonic() - start
                text = stream.add(chunk)
                if on_token is not None and text:
                    on_token(text)
        if self._server and not stream.complete:
            raise ModelError(f"{self._where()} broke off in the middle of its answer.", transient=True)
        return self._record(messages, stream, turn, constrained, previous_ids, at, time.monotonic() - start)

    @asynccontextmanager
    async def _errors(self, stream: _Stream) -> AsyncIterator[None]:
        """Raise ModelError for whatever goes wrong with a server or with what it sends."""
        import openai  # slow to import, and there already once a model of this kind is open

        try:
            yield
        except openai.APIStatusError as error:
            raise ModelError(self._hide(f"{self._where()} answered {error.status_code}: {_reason(error)}.")) from error
        except (openai.OpenAIError, httpx.HTTPError) as error:
            # The client has retried what failed before the answer; a broken stream is for the flow to ask again.
            what = (str(error) or type(error).__name__).rstrip(".")
            message = self._hide(f"{self._where()} failed: {what}.")
            raise ModelError(message, transient=stream.answered or bool(stream.text)) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            message = self._hide(f"{self._where()} did not send a chat completion: {error}.")
            raise ModelError(message, transient=True) from error
        except Exception as error:
            if self._server:
                raise
            # every other provider raises its own classes
            raise ModelError(self._hide(f"{self._where()} failed: {error}.")) from error

    def _hide(self, message: str) -> str:
        return message.replace(self._secret, "[key]") if self._secret else message

    def _body(self, schema: dict[str, Any] | None) -> dict[str, Any]:
        """Return what goes into this call beyond the settings that the chat model was built with."""
        if self._server is None:
            return {}
        extra: dict[str, Any] = dict(self.config.extra)
        if schema:
            extra["response_format"] = {"type": "json_schema", "json_schema": {"name": self.role, "schema": schema}}
        if self.returns_ids:
            extra["return_token_ids"] = True
            return {"extra_body": extra, "logprobs": True}
        return {"extra_body": extra}

    def _where(self) -> str:
        place = f"at {self._server.base_url} " if self._server else ""
        return f"The {self.role}'s model server {place}({self.config.model})"

    def _record(
        self,
        messages: Sequence[Message],
        stream: _Stream,
        turn: int,
        constrained: bool,
        previous_ids: Sequence[int],
        at: float,
        seconds: float,
    ) -> ModelCall:
        ids, logprobs = stream.completion_ids, stream.logprobs
        complete = ids is not None and logprobs is not None and len(ids) == len(logprobs)
        shared = shared_length(stream.prompt_ids, previous_ids) if stream.prompt_ids is not None else None
        config = self.config
        return ModelCall(
            role=self.role,
            turn=turn,
            model=config.model,
            policy=config.model if self.returns_ids else None,
            prompt_hash=hash_messages(messages),
            text=plain_text("".join(stream.text)),
            prompt_shared=shared,
            prompt_rest=None if stream.prompt_ids is None else tuple(stream.prompt_ids[shared:]),
            completion_ids=tuple(ids) if complete and ids is not None else None,
            logprobs=tuple(logprobs) if complete and logprobs is not None else None,
            finish_reason=stream.finish_reason,
            sampling={
                "temperature": config.temperature,
                "top_p": config.top_p,
                "max_tokens": config.max_tokens,
                "seed": config.seed,
                "constrained": constrained,
                **({"extra": config.extra} if config.extra else {}),
            },
            usage=stream.usage,
            seconds=round(seconds, 4),
            first_token_seconds=None if stream.first_token is None else round(stream.first_token, 4),
            at=round(at, 3),
        )


def _reason(error: "openai.APIStatusError") -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error.message).rstrip(".")[:300]
