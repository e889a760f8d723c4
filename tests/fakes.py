"""Fakes that are real where it matters: a model server that speaks HTTP, and tools that count."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Reply = str | dict[str, Any] | Callable[[dict[str, Any]], "Reply"]


class ScriptedServer:
    """An OpenAI-compatible server on loopback that answers from a script, by role, and counts what it was asked.

    The role is told from the system message. A reply is the text to stream; a dict `{"status": 500}` is an error,
    `{"text": …, "delay": seconds}` waits before the first token, `{"text": …, "break": n}` drops the connection after n
    pieces; a callable gets the request. A script that is exhausted answers 599, which fails the test's run.
    """

    ROLES = {
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
    ) -> None:
        self.scripts = {role: list(replies) for role, replies in scripts.items()}
        self.repeat = repeat
        self.requests: list[dict[str, Any]] = []
        self.roles: list[str] = []
        self.lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                if key and self.headers.get("Authorization") != f"Bearer {key}":
                    return self.send(401, {"error": {"message": "bad key"}})
                if self.path.endswith("/models"):
                    listed = [{"id": name, "object": "model", "owned_by": owned_by} for name in models]
                    return self.send(200, {"object": "list", "data": listed})
                return self.send(404, {"error": {"message": "not found"}})

            def send(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = server.next_reply(body)
                if isinstance(reply, str):
                    reply = {"text": reply}
                if reply.get("drop"):
                    self.close_connection = True
                    return None
                if "status" in reply:
                    message = reply.get("message", "scripted error")
                    return self.send(reply["status"], {"error": {"message": message}}, reply.get("headers"))
                try:
                    self.stream(reply, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                return None

            def stream(self, reply: dict[str, Any], body: dict[str, Any]) -> None:
                time.sleep(reply.get("delay", 0))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                text = reply["text"]
                pieces = [text[i : i + 16] for i in range(0, len(text), 16)] or [""]
                for index, piece in enumerate(pieces):
                    if index == reply.get("break"):
                        self.connection.close()
                        return
                    self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]})
                    time.sleep(reply.get("pause", 0))
                self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.get("finish", "stop")}]})
                prompt = sum(len(m["content"]) for m in body["messages"]) // 4
                usage = {
                    "prompt_tokens": prompt,
                    "completion_tokens": len(pieces),
                    "total_tokens": prompt + len(pieces),
                }
                self.event({"choices": [], "usage": usage})
                self.wfile.write(b"data: [DONE]\n\n")

            def event(self, chunk: dict[str, Any]) -> None:
                whole = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": body_model, **chunk}
                self.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
                self.wfile.flush()

        body_model = models[0]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def next_reply(self, body: dict[str, Any]) -> dict[str, Any] | str:
        system = body["messages"][0]["content"]
        role = next((role for start, role in self.ROLES.items() if system.startswith(start)), "?")
        with self.lock:
            self.requests.append(body)
            self.roles.append(role)
            script = self.scripts.get(role, [])
            if not script:
                return {"status": 400, "message": f"the script for {role} is exhausted"}
            reply = script[0] if self.repeat else script.pop(0)
        return reply(body) if callable(reply) else reply  # type: ignore[return-value]

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


ANALYSIS = '{"summary": "A sum", "skills": "adding", "tools": ["count_calls"], "considerations": ""}'
STOP = '{"analysis": "It is there.", "stop": true}'
GO_ON = '{"analysis": "Something is missing.", "stop": false}'


def plan(tool: str = "count_calls", sub_goal: str = "Do it") -> str:
    return json.dumps({"justification": "j", "context": "c", "sub_goal": sub_goal, "tool": tool})


def command(*calls: dict[str, Any]) -> str:
    return json.dumps({"calls": list(calls)})


def answer(text: str) -> str:
    return json.dumps({"solution": "Because.", "answer": text})
