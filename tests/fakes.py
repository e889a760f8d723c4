"""Fakes that are real where it matters: a model server that speaks HTTP, and what its models say."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

Reply = str | dict[str, Any] | Callable[[dict[str, Any]], "Reply"]

_PIECE = re.compile(r"\s?\S{1,8}|\s")


class ScriptedServer:
    """An OpenAI-compatible server on loopback that answers from a script, by role, and counts what it was asked.

    The role is told from the system message. A reply is the text to stream, a callable that gets the request and
    returns a reply, or a dict:

    - `{"status": 500, "message": …, "headers": …}`: an error in place of an answer;
    - `{"json": …}`: this body with status 200, in place of a stream;
    - `{"drop": True}`: the request is read, and the connection closed without an answer;
    - `{"text": …}` with any of `delay` (seconds before the first token), `pause` (seconds between tokens), `break` (the
      connection is lost after so many pieces), `error` (an error object follows so many pieces), `raw` (sent in place
      of that many pieces' successor), `finish` (the finish reason; None leaves it out), `usage` (False leaves it out).

    A script that is exhausted answers 400, which fails the run. With `owned_by="vllm"` token ids and log-probabilities
    are sent where they are asked for, as vLLM does: pieces of up to eight characters are the tokens.

    With a `context` a prompt that does not fit with its answer is refused as vLLM does, whatever the script says, and
    counted in `too_long`. Prompts are counted as vLLM and llama.cpp (`owned_by="llamacpp"`) count them; `counts` is the
    number of such requests.
    """

    ROLES: ClassVar = {
        "You analyse": "analyzer",
        "You plan": "planner",
        "You call": "executor",
        "You check": "verifier",
        "You give": "generator",
        "You answer": "generate",
    }

    def __init__(
        self,
        scripts: dict[str, Sequence[Reply]],
        *,
        models: Sequence[str] = ("test-model",),
        owned_by: str = "test",
        repeat: bool = False,
        key: str | None = None,
        context: int | None = None,
        idle_seconds: float | None = None,
        port: int = 0,
    ) -> None:
        """`idle_seconds`: connections are kept alive, and closed after so long without a request."""
        self.scripts = {role: list(replies) for role, replies in scripts.items()}
        self.repeat = repeat
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.roles: list[str] = []
        self.vocabulary: dict[str, int] = {}
        self.connections = self.counts = self.too_long = 0
        self.lock = threading.Lock()
        self.models, self.owned_by, self.key, self.context = models, owned_by, key, context
        handler = type("Handler", (_Handler,), {"scripted": self, "timeout": idle_seconds})
        self._server = _Server(("127.0.0.1", port), handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"

    @property
    def keep_alive(self) -> bool:
        return self._server.RequestHandlerClass.timeout is not None  # type: ignore[attr-defined]

    def next_reply(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        role = self.role_of(body)
        with self.lock:
            self.requests.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self.roles.append(role)
            script = self.scripts.get(role, [])
            if not script:
                return {"status": 400, "message": f"the script for {role} is exhausted"}
            reply = script[0] if self.repeat else script.pop(0)
        while callable(reply):
            reply = reply(body)
        return {"text": reply} if isinstance(reply, str) else reply

    def role_of(self, body: dict[str, Any]) -> str:
        system = body["messages"][0]["content"]
        return next((role for start, role in self.ROLES.items() if system.startswith(start)), "?")

    def tokenize(self, text: str) -> list[tuple[int, str]]:
        """Return id and text of each token; the same text always gives the same ids."""
        with self.lock:
            return [(self.vocabulary.setdefault(piece, len(self.vocabulary)), piece) for piece in _PIECE.findall(text)]

    def prompt_ids(self, body: dict[str, Any]) -> list[int]:
        return self.ids_of(self.prompt_of(body))

    def prompt_of(self, body: dict[str, Any]) -> str:
        """The chat template."""
        return "".join(f"<{m['role']}> {m['content']} " for m in body["messages"])

    def ids_of(self, prompt: str) -> list[int]:
        return [token for token, _ in self.tokenize(prompt)]

    def counting(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request that counts; None for another one."""
        match (self.owned_by, path.rpartition("/")[2]):
            case ("vllm", "tokenize"):
                tokens = self.prompt_ids(body)
                answer: dict[str, Any] = {"count": len(tokens), "tokens": tokens, "max_model_len": self.context}
            case ("llamacpp", "tokenize"):
                answer = {"tokens": self.ids_of(body["content"])}
            case ("llamacpp", "apply-template"):
                answer = {"prompt": self.prompt_of(body)}
            case _:
                return None
        with self.lock:
            self.counts += 1
        return answer

    def refusal(self, body: dict[str, Any]) -> str | None:
        """What a prompt that does not fit with its answer is refused with."""
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        prompt = len(self.prompt_ids(body)) if self.context else 0
        if self.context is None or prompt + asked <= self.context:
            return None
        with self.lock:
            self.too_long += 1
        return (
            f"This model's maximum context length is {self.context} tokens. However, you requested {asked} output "
            f"tokens and your prompt contains {prompt} input tokens."
        )

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
        """Return status and body where a subclass answers `path` itself; `body` is None for GET."""
        return None

    def count(self, role: str) -> int:
        return self.roles.count(role)

    def of(self, role: str) -> list[dict[str, Any]]:
        return [body for body, asked in zip(self.requests, self.roles, strict=True) if asked == role]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed or cancelled in the middle is no error of the server's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.scripted.lock:
            self.scripted.connections += 1

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        scripted = self.scripted
        if scripted.key and self.headers.get("Authorization") != f"Bearer {scripted.key}":
            self._send(401, {"error": {"message": "bad key"}})
        elif own := scripted.endpoint(self.path, None):
            self._send(*own)
        elif self.path.endswith("/models"):
            about = {"object": "model", "owned_by": scripted.owned_by, "max_model_len": scripted.context}
            self._send(200, {"object": "list", "data": [{"id": name, **about} for name in scripted.models]})
        elif self.path.endswith("/props") and scripted.owned_by == "llamacpp":
            self._send(200, {"default_generation_settings": {"n_ctx": scripted.context}, "total_slots": 1})
        else:
            self._send(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if own := self.scripted.endpoint(self.path, body):
            return self._send(*own)
        if counted := self.scripted.counting(self.path, body):
            return self._send(200, counted)
        if refusal := self.scripted.refusal(body):
            return self._send(400, {"error": {"message": refusal}})
        reply = self.scripted.next_reply(body, {name.lower(): value for name, value in self.headers.items()})
        if reply.get("drop"):
            self._hang_up()
        elif "status" in reply:
            time.sleep(reply.get("delay", 0))
            error = reply.get("error", {"message": reply.get("message", "scripted error")})
            self._send(reply["status"], {"error": error}, reply.get("headers"))
        elif "json" in reply:
            self._send(200, reply["json"])
        else:
            try:
                self._stream(reply, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
        return None

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        if not self.scripted.keep_alive:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: dict[str, Any], body: dict[str, Any]) -> None:
        time.sleep(reply.get("delay", 0))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if self.scripted.keep_alive:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        ids = self.scripted.owned_by == "vllm" and body.get("return_token_ids")
        tokens = self.scripted.tokenize(reply["text"])
        if ids:
            first = {"delta": {"role": "assistant", "content": ""}, "logprobs": None}
            self._event(body, [first], prompt_token_ids=self.scripted.prompt_ids(body))
        for index, (token, piece) in enumerate(tokens):
            if index == reply.get("break"):
                return self._hang_up()
            if index == reply.get("error"):
                return self._write(b'data: {"error": {"message": "the engine died", "code": 500}}\n\n')
            self._event(body, [{"delta": {"role": "assistant", "content": piece}, **(_ids(token) if ids else {})}])
            time.sleep(reply.get("pause", 0))
        if "raw" in reply:
            self._write(reply["raw"])
        finish = reply.get("finish", "stop")
        if finish:
            self._event(body, [{"delta": {"content": ""}, "finish_reason": finish, **(_ids(-1) if ids else {})}])
        if reply.get("usage", True):
            prompt, completion = len(self.scripted.prompt_ids(body)), len(tokens) + 1
            usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
            self._event(body, [], usage=usage)
        self._write(b"data: [DONE]\n\n")
        if self.scripted.keep_alive:
            self.wfile.write(b"0\r\n\r\n")
        return None

    def _event(self, body: dict[str, Any], choices: list[dict[str, Any]], **fields: Any) -> None:
        whole = {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": None} | choice for choice in choices],
            **fields,
        }
        self._write(b"data: " + json.dumps(whole).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.scripted.keep_alive else data)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _ids(token: int) -> dict[str, Any]:
    content = [{"token": "", "logprob": -0.1 - token % 7, "bytes": None, "top_logprobs": []}]
    return {"token_ids": [token], "logprobs": {"content": content}}


ANALYSIS = '{"summary": "A sum", "skills": "adding", "tools": ["count_calls"], "considerations": ""}'
STOP = '{"analysis": "It is there.", "stop": true}'
GO_ON = '{"analysis": "Something is missing.", "stop": false}'


def plan(tool: str = "count_calls", sub_goal: str = "Do it") -> str:
    return json.dumps({"justification": "j", "context": "c", "sub_goal": sub_goal, "tool": tool})


def command(*calls: dict[str, Any]) -> str:
    return json.dumps({"calls": list(calls)})


def answer(text: str) -> str:
    return json.dumps({"solution": "Because.", "answer": text})
