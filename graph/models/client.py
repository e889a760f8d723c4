"""One role's model: sends messages, streams tokens, and returns what there is to know about the call."""

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

import httpx
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable

from graph.config import ModelConfig, Role
from graph.deadline import Deadline
from graph.errors import ModelError
from graph.known_secrets import NO_SECRETS, KnownSecrets
from graph.models.server import ServerInfo
from graph.models.stream import Stream
from graph.models.tokens import TokenCounter
from graph.plain import plain_text
from graph.policies.route import PolicySource, Route
from graph.prompt import Message, hash_messages
from graph.prompt_ids import shared_length
from graph.records import ModelCall

if TYPE_CHECKING:
    import openai

OnToken = Callable[[str], None]

Constraint = Literal["response_format", "provider", "none"]
"""How a model is held to a schema: by OpenAI's field of the request, by its provider's own means, or not."""

_LONGEST_REASON = 300


_current: ContextVar[Stream] = ContextVar("_current")


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
        constraint: Constraint = "response_format",
        secrets: KnownSecrets = NO_SECRETS,
        policies: PolicySource | None = None,
        context: int | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        """`secrets` are kept out of errors, as servers like to repeat keys in theirs, and out of what the model writes.

        `policies` decide before each call which version answers; None for the model as it is configured. `context` is
        the tokens that a prompt and its answer may take together, None where nobody says; `counter` counts a prompt's,
        None where the server cannot.
        """
        self.role = role
        self.config = config
        self.context = context
        self.counter = counter
        self._chat = chat
        self._server = server
        self._constraint = constraint
        self._secrets = secrets
        self._policies = policies

    @property
    def constrained(self) -> bool:
        """Whether calls are decoded under the role's JSON schema."""
        if self._constraint == "none":
            return False
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
        stream = Stream()
        at, start = time.time(), time.monotonic()
        async with deadline.limit(), self._route() as route, self._errors(stream, route):
            _current.set(stream)
            shown = self._secrets.stream()
            async for chunk in self._chunks(messages, schema if constrained else None, route):
                if stream.first_token is None and chunk.text:
                    stream.first_token = time.monotonic() - start
                text = stream.add(chunk)
                if on_token is not None and (text := shown.add(text)):
                    on_token(text)
            if on_token is not None and (text := shown.end()):
                on_token(text)
        if self._server and not stream.complete:
            raise ModelError(f"{self._where()} broke off in the middle of its answer.", transient=True)
        return self._record(messages, stream, route, turn, constrained, previous_ids, at, time.monotonic() - start)

    @asynccontextmanager
    async def _route(self) -> AsyncIterator[Route]:
        if self._policies is None:
            yield Route(self.config.model, self.config.model if self.returns_ids else None)
            return
        async with self._policies.route() as route:
            yield route

    @asynccontextmanager
    async def _errors(self, stream: Stream, route: Route) -> AsyncIterator[None]:
        """Raise ModelError for whatever goes wrong with a server or with what it sends."""
        import openai  # slow to import, and there already once a model of this kind is open

        try:
            yield
        except openai.APIStatusError as error:
            reason = self._secrets.hide(_reason(error))[:_LONGEST_REASON]
            if (
                self._policies is not None
                and isinstance(error, openai.NotFoundError)
                and route.model != self.config.model
            ):
                self._policies.lost(route)  # unloaded by its successor's promotion, or by a restart of the server
                raise ModelError(f"{self._where()} has lost the policy {route.policy}.", transient=True) from error
            raise ModelError(f"{self._where()} answered {error.status_code}: {reason}.") from error
        except (openai.OpenAIError, httpx.HTTPError) as error:
            # The client has retried what failed before the answer; a broken stream is for the flow to ask again.
            what = (str(error) or type(error).__name__).rstrip(".")
            message = self._secrets.hide(f"{self._where()} failed: {what}.")
            raise ModelError(message, transient=stream.answered or bool(stream.text)) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            message = self._secrets.hide(f"{self._where()} did not send a chat completion: {error}.")
            raise ModelError(message, transient=True) from error
        except Exception as error:
            if self._server:
                raise
            # every other provider raises its own classes
            raise ModelError(self._secrets.hide(f"{self._where()} failed: {error}.")) from error

    async def _chunks(
        self, messages: Sequence[Message], schema: dict[str, Any] | None, route: Route
    ) -> AsyncIterator[BaseMessage]:
        prompt = [dict(message) for message in messages]
        if schema is None or self._constraint != "provider":
            chat = route.chat or self._chat
            async for chunk in chat.astream(prompt, **self._body(schema, route)):
                yield chunk
            return
        text, parsed = "", None
        async for part in with_schema(self._chat, self.role, schema).astream(prompt):
            if raw := part.get("raw"):
                text += str(raw.text)
                yield raw
            parsed = part.get("parsed") or parsed
        if not text and parsed is not None:  # it came as the arguments of a tool call
            yield AIMessageChunk(content=json.dumps(parsed, ensure_ascii=False))

    def _body(self, schema: dict[str, Any] | None, route: Route) -> dict[str, Any]:
        """Return what goes into this call beyond the settings that the chat model was built with."""
        body: dict[str, Any] = {}
        if self._server is None:
            if schema is None:
                return body
            extra = dict(getattr(self._chat, "extra_body", None) or {})
        else:
            extra = {**self.config.extra, **route.extra}
            body["model"] = route.model
        if schema:
            extra["response_format"] = {"type": "json_schema", "json_schema": {"name": self.role, "schema": schema}}
        if self.returns_ids:
            extra["return_token_ids"] = True
            body["logprobs"] = True
        return {**body, "extra_body": extra}

    def _where(self) -> str:
        place = f"at {self._server.base_url} " if self._server else ""
        return f"The {self.role}'s model server {place}({self.config.model})"

    def _record(
        self,
        messages: Sequence[Message],
        stream: Stream,
        route: Route,
        turn: int,
        constrained: bool,
        previous_ids: Sequence[int],
        at: float,
        seconds: float,
    ) -> ModelCall:
        ids, logprobs = stream.completion_ids, stream.logprobs
        written = plain_text("".join(stream.text))
        text = self._secrets.hide_written(written)
        # Ids would still spell what was hidden.
        complete = ids is not None and logprobs is not None and len(ids) == len(logprobs) and text == written
        shared = shared_length(stream.prompt_ids, previous_ids) if stream.prompt_ids is not None else None
        config = self.config
        return ModelCall(
            role=self.role,
            turn=turn,
            model=config.model,
            policy=route.policy,
            prompt_hash=hash_messages(messages),
            text=text,
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


def with_schema(chat: BaseChatModel, name: str, schema: dict[str, Any]) -> Runnable[Any, Any]:
    """Return `chat`, held to `schema` by what its provider offers.

    Raises:
        NotImplementedError, ValueError, TypeError: it offers nothing.
    """
    named = {"title": name, "description": f"What the {name} has to say.", **schema}
    return chat.with_structured_output(named, method="json_schema", include_raw=True)


def _reason(error: "openai.APIStatusError") -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    return str(message or error.message).rstrip(".")
