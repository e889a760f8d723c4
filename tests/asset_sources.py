"""A model hub on loopback that can misbehave, and wheels that pip finds in a folder."""

import hashlib
import re
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from graph.assets import Asset, HubFile, Part

PART = 200_000
SIZES = (PART, PART, 50_000)
CONTENT = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(sum(SIZES) // 32 + 1))[: sum(SIZES)]


def pieces(content: bytes = CONTENT) -> list[bytes]:
    return [content[sum(SIZES[:i]) : sum(SIZES[: i + 1])] for i in range(len(SIZES))]


def asset(*, hub: bool = True) -> Asset:
    """An asset in three parts with the hash of CONTENT."""
    parts = tuple(
        Part(f"agentflow-test-part{i}", "1.0", ".bin", len(piece), hashlib.sha256(piece).hexdigest())
        for i, piece in enumerate(pieces(), start=1)
    )
    return Asset(
        name="test",
        title="test model",
        kind="models",
        filename="test.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        parts=parts,
        hub=HubFile("owner/test", "test.gguf") if hub else None,
    )


def write_wheel(folder: Path, number: int, content: bytes, *, member: str = "data/part.bin") -> Path:
    """The package of one part, which would leave a trace if anybody ran its code."""
    name = f"agentflow_test_part{number}"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('this code must never run')\n")
        wheel.writestr(f"{name}/{member}", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


class Hub:
    """Serves `content` with ranges; `misbehaviours` are used up one per request, then it serves well.

    Each is a number of bytes after which it cuts the connection, an HTTP status, or bytes to send instead.
    """

    def __init__(
        self,
        content: bytes = CONTENT,
        misbehaviours: tuple[int | bytes, ...] = (),
        *,
        ranges: bool = True,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.ranges_asked: list[str | None] = []
        self.paths: list[str] = []
        rest = list(misbehaviours)
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                hub.ranges_asked.append(asked)
                hub.paths.append(self.path)
                before()
                fault = rest.pop(0) if rest else None
                if isinstance(fault, int) and 400 <= fault < 600:
                    self.send_error(fault)
                    return
                start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and ranges else 0  # type: ignore[index]
                body = (fault if isinstance(fault, bytes) else content)[start:]
                self.send_response(206 if asked and ranges else 200)
                self.send_header("Content-Length", str(len(body)))
                if asked and ranges:
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                self.end_headers()
                self.wfile.write(body[:fault] if isinstance(fault, int) else body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
