"""The network tools against real servers on this machine."""

import asyncio
import gzip
import json
import socket
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpcore
import pytest
from langchain_core.tools import BaseTool

from graph.errors import ToolError
from graph.tools import read_page, web_search, wikipedia
from graph.tools.address_guard import AddressGuard, GuardedBackend
from graph.tools.page_fetch import fetch_page
from graph.tools.settings import ReadPageSettings, WebSearchSettings, WikipediaSettings


class QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up, which is what the tools do with what they refuse."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Server:
    """Answers each path by a function of the test, and remembers the requests."""

    def __init__(self) -> None:
        self.routes: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                try:
                    server.routes[urlsplit(self.path).path](self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_POST = do_GET  # noqa: N815 - http.server's name

            def log_message(self, *_: object) -> None:
                pass

        self._http = QuietServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def send(
    handler: BaseHTTPRequestHandler, body: bytes | str, *, status: int = 200, kind: str = "text/html", **headers: str
) -> None:
    content = body.encode() if isinstance(body, str) else body
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def reply(body: bytes | str = "", **options: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send(handler, body, **options)


def replies(*answers: Callable[[BaseHTTPRequestHandler], None]) -> Callable[[BaseHTTPRequestHandler], None]:
    remaining = list(answers)
    return lambda handler: remaining.pop(0)(handler)


def reader(**settings: Any) -> BaseTool:
    return read_page.build(ReadPageSettings(**{"allow_hosts": ("localhost",), "timeout": 10, **settings}))


async def refusal(tool: BaseTool, **arguments: str) -> str:
    with pytest.raises(ToolError) as caught:
        await tool.ainvoke(arguments)
    return str(caught.value)


ARTICLE = """<html><head><title>The Harbour Bridge</title></head>
<body><nav><a href="/">Home</a> <a href="/x">Shop</a></nav>
<article><h1>The Harbour Bridge</h1>
<p>The bridge carries trains, cars and people across the harbour, and has become a sign of the whole city.</p>
<p>It was opened on 19 March 1932 after eight years of work by about 1,400 people.</p></article></body></html>"""


# read_page


async def test_page_is_read_and_its_passages_returned(server: Server) -> None:
    server.routes["/bridge"] = reply(ARTICLE, kind="text/html; charset=utf-8")
    text = await reader().ainvoke({"url": f"{server.url}/bridge", "query": "when was it opened"})
    assert "The Harbour Bridge" in text.splitlines()[0]
    assert "19 March 1932" in text
    assert "Shop" not in text
    ((_, headers),) = server.requests
    assert headers["User-Agent"].startswith("AgentFlow/")
    assert headers["Host"] == f"localhost:{server.port}"


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown", "application/json", "application/rss+xml", ""])
async def test_other_text_is_returned_as_it_is(server: Server, kind: str) -> None:
    server.routes["/t"] = reply('{"opened": 1932}', kind=kind)
    assert '{"opened": 1932}' in await reader().ainvoke({"url": f"{server.url}/t", "query": "opened"})


async def test_declared_charset_is_used_and_an_unknown_one_survived(server: Server) -> None:
    server.routes["/latin"] = reply("Café".encode("latin-1"), kind="text/plain; charset=iso-8859-1")
    server.routes["/odd"] = reply("Café", kind="text/plain; charset=x-unheard-of")
    assert "Café" in await reader().ainvoke({"url": f"{server.url}/latin"})
    assert "Café" in await reader().ainvoke({"url": f"{server.url}/odd"})


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/octet-stream"])
async def test_what_is_not_text_is_named(server: Server, kind: str) -> None:
    server.routes["/f"] = reply(b"%PDF-1.7", kind=kind)
    assert kind in await refusal(reader(), url=f"{server.url}/f")


async def test_page_without_text_is_said_to_have_none(server: Server) -> None:
    server.routes["/"] = reply("<html><body><script>draw()</script></body></html>")
    assert "no readable text" in await refusal(reader(), url=server.url)


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://2130706433:{port}/secret",
        "http://0x7f.1:{port}/secret",
        "http://user:pass@localhost:{port}/secret",
        "file:///etc/passwd",
        "gopher://localhost:{port}/secret",
        "//127.0.0.1:{port}/secret",
    ],
)
async def test_redirect_to_an_internal_address_is_refused(server: Server, target: str) -> None:
    server.routes["/go"] = reply(status=302, Location=target.format(port=server.port))
    server.routes["/secret"] = reply("the secret", kind="text/plain")
    assert "the secret" not in await refusal(reader(), url=f"{server.url}/go")
    assert server.paths() == ["/go"]


async def test_same_addresses_are_refused_at_once(server: Server) -> None:
    server.routes["/"] = reply("the secret", kind="text/plain")
    for host in ("127.0.0.1", "0", "0177.0.0.1", "127.1", "[::]", "localhost"):
        await refusal(reader(allow_hosts=()), url=f"http://{host}:{server.port}/")
    assert server.requests == []


async def test_proxy_of_the_environment_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("ALL_PROXY", server.url)
    server.routes["/"] = reply("proxied")
    assert "internal address" in await refusal(reader(allow_hosts=()), url="http://127.0.0.1/")
    assert server.requests == []


async def test_redirects_are_followed_up_to_five(server: Server) -> None:
    server.routes |= {f"/{n}": reply(status=301, Location=f"/{n + 1}") for n in range(6)}
    server.routes["/5"] = reply("arrived", kind="text/plain")
    assert "arrived" in await reader().ainvoke({"url": f"{server.url}/0"})
    server.routes["/5"] = reply(status=301, Location="/6")
    server.routes["/6"] = reply("too far", kind="text/plain")
    assert "redirects more than 5 times" in await refusal(reader(), url=f"{server.url}/0")


async def test_body_of_a_redirect_is_not_read(server: Server) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/end")
        handler.end_headers()
        while True:
            handler.wfile.write(b"x" * 65_536)

    server.routes["/go"] = endless
    server.routes["/end"] = reply("arrived", kind="text/plain")
    assert "arrived" in await reader().ainvoke({"url": f"{server.url}/go"})


async def test_name_that_changes_its_address_is_refused_at_the_second_look(server: Server) -> None:
    """DNS rebinding: public at first, then loopback. Every connection goes to the address that was checked for it."""
    answers = [["93.184.215.14"], ["127.0.0.1"]]
    connected: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    class Recording(httpcore.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, port: int, *rest: Any, **more: Any) -> httpcore.AsyncNetworkStream:
            connected.append(host)
            raise httpcore.ConnectError("closed")

    backend = GuardedBackend(AddressGuard(resolve=resolve), Recording())
    with pytest.raises(httpcore.ConnectError):
        await backend.connect_tcp("rebind.test", 80)
    with pytest.raises(ToolError, match="internal address"):
        await backend.connect_tcp("rebind.test", 80)
    assert connected == ["93.184.215.14"]


async def test_page_is_fetched_from_the_checked_address_under_the_host_s_name(server: Server) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    server.routes["/"] = reply("hello", kind="text/plain")
    guard = AddressGuard(("nowhere.test",), resolve)
    page = await fetch_page(f"http://nowhere.test:{server.port}/", guard=guard, max_bytes=100, seconds=5)
    assert page.content == b"hello"
    assert server.requests[0][1]["Host"] == f"nowhere.test:{server.port}"


async def test_tls_names_the_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hello: list[bytes] = []

        def accept() -> None:
            connection, _ = listener.accept()
            hello.append(connection.recv(4096))
            connection.sendall(b"\x15\x03\x01\x00\x02\x02\x28")  # a TLS alert: handshake failure
            connection.close()

        thread = threading.Thread(target=accept)
        thread.start()

        async def resolve(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        guard = AddressGuard(("name.test",), resolve)
        with pytest.raises(ToolError, match=r"secure connection to name\.test failed"):
            await fetch_page(f"https://name.test:{listener.getsockname()[1]}/", guard=guard, max_bytes=10, seconds=5)
        thread.join()
    assert b"name.test" in hello[0]


async def test_long_page_is_cut(server: Server) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        while True:
            handler.wfile.write(b"many words " * 1000)

    server.routes["/"] = endless
    text = await reader(max_bytes=20_000).ainvoke({"url": server.url, "query": "words"})
    assert "only the first 20,000 bytes were read" in text


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_decompression_bomb_is_cut_before_it_expands(server: Server, encoding: str) -> None:
    zeros = b"0" * 200_000_000
    if encoding == "gzip":
        bomb = gzip.compress(zeros, 6)
    else:
        deflate = zlib.compressobj(6, wbits=15 if encoding == "deflate" else -15)
        bomb = deflate.compress(zeros) + deflate.flush()
    del zeros
    server.routes["/"] = reply(bomb, kind="text/plain", Content_Encoding=encoding.split()[-1])
    tracemalloc.start()
    page = await fetch_page(server.url, guard=AddressGuard(("localhost",)), max_bytes=100_000, seconds=10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert page.cut
    assert page.content == b"0" * 100_000
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("encoding", "body", "says"),
    [("gzip, gzip", b"", "compressed in a way"), ("br", b"", "compressed in a way"), ("gzip", b"no gzip", "damaged")],
)
async def test_odd_compression_is_refused(server: Server, encoding: str, body: bytes, says: str) -> None:
    server.routes["/"] = reply(body, kind="text/plain", Content_Encoding=encoding)
    assert says in await refusal(reader(), url=server.url)


async def test_compressed_page_is_read(server: Server) -> None:
    server.routes["/"] = reply(gzip.compress(b"plain words"), kind="text/plain", Content_Encoding="gzip")
    assert "plain words" in await reader().ainvoke({"url": server.url})


async def test_failing_server_is_asked_again(server: Server) -> None:
    failing = reply("busy", status=503, Retry_After="0")
    server.routes["/"] = replies(failing, reply("slow down", status=429), reply("at last", kind="text/plain"))
    assert "at last" in await reader().ainvoke({"url": server.url})
    server.routes["/"] = reply("busy", status=500, Retry_After="0")
    assert "500" in await refusal(reader(), url=server.url)
    assert len(server.requests) == 3 + 4


async def test_wait_that_cannot_be_afforded_is_not_begun(server: Server) -> None:
    server.routes["/"] = reply("busy", status=503, Retry_After="3600")
    assert "503" in await refusal(reader(), url=server.url)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "says"), [(404, "check the address"), (403, "refuses to be read"), (410, "410")])
async def test_other_errors_are_not_asked_again(server: Server, status: int, says: str) -> None:
    server.routes["/"] = reply("no", status=status)
    assert says in await refusal(reader(), url=server.url)
    assert len(server.requests) == 1


async def test_connection_that_breaks_is_made_again(server: Server) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.routes["/"] = replies(hang_up, reply("at last", kind="text/plain"))
    assert "at last" in await reader().ainvoke({"url": server.url})


async def test_body_that_trickles_ends_with_the_time(server: Server) -> None:
    stop = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        while not stop.wait(0.02):
            handler.wfile.write(b".")

    server.routes["/"] = trickle
    started = time.monotonic()
    assert "took longer than 0.5 s" in await refusal(reader(timeout=0.5), url=server.url)
    assert time.monotonic() - started < 5
    stop.set()


async def test_unreachable_and_unknown_hosts_are_told_apart(unused_tcp_port: int) -> None:
    assert "cannot be reached" in await refusal(reader(), url=f"http://localhost:{unused_tcp_port}/")

    async def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(ToolError, match=r"no host named nowhere\.test"):
        await fetch_page("nowhere.test/page", guard=AddressGuard(resolve=resolve), max_bytes=10, seconds=5)


async def test_page_tool_is_offered_where_an_intranet_is_allowed() -> None:
    assert await reader().unavailable() is None


# wikipedia

PAGES = {
    "Harbour Bridge": "The Harbour Bridge is a bridge.\n\n"
    + "It carries trains. " * 200
    + "\n\nIt was opened in 1932.",
    "Harbour": "A harbour is a sheltered body of water.",
}


class MediaWiki:
    """The queries of MediaWiki's API that the `wikipedia` package makes."""

    def __init__(self) -> None:
        self.languages: list[str] = []

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}
        send(handler, json.dumps(self.answer(query)), kind="application/json")

    def answer(self, query: dict[str, str]) -> dict[str, Any]:
        if query.get("list") == "search":
            words = query["srsearch"].lower().split()
            titles = [title for title in [*PAGES, "Crane", "Vanished"] if any(word in title.lower() for word in words)]
            return {"query": {"search": [{"title": title} for title in titles[: int(query["srlimit"])]]}}
        if query.get("meta") == "siteinfo":
            return {"query": {"general": {"sitename": "Test"}}}
        title = query.get("titles", "Crane")
        page: dict[str, Any] = {"pageid": 7, "title": title}
        if "info" in query["prop"]:
            page |= {"fullurl": f"http://wiki.test/{title.replace(' ', '_')}"}
            if title == "Crane":
                page["pageprops"] = {"disambiguation": ""}
            elif title not in PAGES:
                return {"query": {"pages": {"-1": {"title": title, "missing": ""}}}}
        if "extracts" in query["prop"]:
            page |= {"extract": PAGES[title], "revisions": [{"revid": 1, "parentid": 0}]}
        elif "revisions" in query["prop"]:
            page["revisions"] = [{"*": "<ul><li><a>Crane (bird)</a></li><li><a>Crane (machine)</a></li></ul>"}]
        return {"query": {"pages": {"7": page}}}


def wiki(server: Server, **settings: Any) -> BaseTool:
    return wikipedia.build(WikipediaSettings(**{"api_url": f"{server.url}/w/api.php", "timeout": 10, **settings}))


async def test_wikipedia_returns_what_the_best_pages_say(server: Server) -> None:
    server.routes["/w/api.php"] = MediaWiki()
    tool = wiki(server)
    assert await tool.unavailable() is None
    message = await tool.ainvoke(
        {"name": "wikipedia", "args": {"query": "harbour bridge opened"}, "id": "1", "type": "tool_call"}
    )
    assert "opened in 1932" in message.content
    assert "sheltered body of water" in message.content
    assert message.content.count("It carries trains.") < 60
    assert message.artifact == {
        "pages": [
            {"title": "Harbour Bridge", "url": "http://wiki.test/Harbour_Bridge"},
            {"title": "Harbour", "url": "http://wiki.test/Harbour"},
        ]
    }
    assert {headers["User-Agent"].split("/")[0] for _, headers in server.requests} == {"AgentFlow"}


async def test_ambiguous_and_missing_titles_are_told(server: Server) -> None:
    server.routes["/w/api.php"] = MediaWiki()
    assert "'Crane' may mean: Crane (bird); Crane (machine)" in await wiki(server).ainvoke({"query": "crane"})
    assert "no page for 'zyxwv'" in await wiki(server).ainvoke({"query": "zyxwv"})
    assert "no page for 'vanished'" in await wiki(server).ainvoke({"query": "vanished"})


async def test_two_wikipedias_at_once_do_not_mix(server: Server) -> None:
    class Other(MediaWiki):
        def answer(self, query: dict[str, str]) -> dict[str, Any]:
            answer = super().answer(query)
            return json.loads(json.dumps(answer).replace("sheltered", "geschützter"))

    server.routes["/w/api.php"] = MediaWiki()
    server.routes["/de/api.php"] = Other()
    one, two = wiki(server), wiki(server, api_url=f"{server.url}/de/api.php")
    texts = await asyncio.gather(*(tool.ainvoke({"query": "harbour"}) for tool in (one, two) * 4))
    assert ["sheltered" in text for text in texts] == [True, False] * 4
    assert ["geschützter" in text for text in texts] == [False, True] * 4


async def test_silent_wikipedia_ends_with_the_time_and_leaves_no_thread(server: Server) -> None:
    release = threading.Event()
    server.routes["/w/api.php"] = lambda handler: release.wait(30) and send(handler, "{}")
    assert "within 0.5 s" in await refusal(wiki(server, timeout=0.5), query="harbour")
    for thread in threading.enumerate():
        if thread.name.startswith("wikipedia"):
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()
    release.set()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reply("busy", status=503, Retry_After="3600"), "503"),
        (reply("no", status=403), "403"),
        (reply("<html>"), "does not answer with JSON"),
        (reply("[]", kind="application/json"), "found nothing"),
        (reply('{"error": {"code": "x", "info": "The search is disabled."}}'), "The search is disabled."),
        (reply('{"query": {}}'), "does not answer as Wikipedia does"),
    ],
)
async def test_failing_wikipedia_is_one_sentence(
    server: Server, answer: Callable[[BaseHTTPRequestHandler], None], says: str
) -> None:
    server.routes["/w/api.php"] = answer
    assert says in await refusal(wiki(server), query="harbour")


async def test_unreachable_wikipedia_is_not_offered(unused_tcp_port: int) -> None:
    tool = wikipedia.build(WikipediaSettings(api_url=f"http://localhost:{unused_tcp_port}/api.php"))
    assert "cannot be reached" in (await tool.unavailable() or "")


async def test_probe_is_kept_for_a_while(server: Server) -> None:
    server.routes["/w/api.php"] = MediaWiki()
    tool = wiki(server)
    assert [await tool.unavailable() for _ in range(3)] == [None] * 3
    assert len(server.requests) == 1


# web_search

KEY = "tvly-planted-secret"


@contextmanager
def tavily(
    server: Server, monkeypatch: pytest.MonkeyPatch, answer: Callable[[BaseHTTPRequestHandler], None]
) -> Iterator[BaseTool]:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    server.routes["/search"] = answer
    yield web_search.build(WebSearchSettings(base_url=server.url, timeout=5))


async def test_results_come_ranked_with_address_and_snippet(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def search(handler: BaseHTTPRequestHandler) -> None:
        seen.update(json.loads(handler.body))  # type: ignore[attr-defined]
        results = [
            {"title": "Bridge", "url": "https://a.test", "content": "Opened in 1932. " * 100, "score": 0.9},
            {"title": None, "url": "https://b.test", "content": None},
            {"no": "address"},
        ]
        send(handler, json.dumps({"results": results}), kind="application/json")

    with tavily(server, monkeypatch, search) as tool:
        text = await tool.ainvoke({"query": "bridge opened"})
    assert text.startswith("1. Bridge — https://a.test\nOpened in 1932.")
    assert "2. https://b.test — https://b.test" in text
    assert len(text) < 600
    assert (seen["query"], seen["max_results"]) == ("bridge opened", 5)
    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("answer", "says", "asked"),
    [
        (reply("{}", status=401), "refuses the key", 1),
        (reply("{}", status=432), "refuses the key", 1),
        (reply("{}", status=400), "refuses this query", 1),
        (reply("{}", status=404), "404", 1),
        (reply("{}", status=429, Retry_After="0"), "quota is used up", 4),
        (reply("{}", status=500, Retry_After="0"), "500", 4),
        (reply("{}", status=204), "does not answer as Tavily does", 1),
        (reply("<html>"), "does not answer as Tavily does", 1),
        (reply("[]", kind="application/json"), "does not answer as Tavily does", 1),
        (reply('{"results": "none"}', kind="application/json"), "does not answer as Tavily does", 1),
    ],
)
async def test_failing_search_is_one_sentence_without_the_key(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[BaseHTTPRequestHandler], None],
    says: str,
    asked: int,
) -> None:
    with tavily(server, monkeypatch, answer) as tool:
        with pytest.raises(ToolError) as caught:
            await tool.ainvoke({"query": "bridge"})
        assert says in str(caught.value)
        assert KEY not in f"{caught.value!r} {tool!r} {tool.model_dump()!r}"
    assert len(server.requests) == asked


async def test_quota_that_is_back_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = reply("{}", status=429, Retry_After="0")
    found = reply(json.dumps({"results": []}), kind="application/json")
    with tavily(server, monkeypatch, replies(busy, found)) as tool:
        assert "found nothing" in await tool.ainvoke({"query": "bridge"})


async def test_search_without_a_key_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    tool = web_search.build(WebSearchSettings())
    assert "TAVILY_API_KEY" in (await tool.unavailable() or "")
    assert "TAVILY_API_KEY" in await refusal(tool, query="bridge")


async def test_silent_search_ends_with_the_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    server.routes["/search"] = lambda handler: release.wait(30) and send(handler, "{}")
    tool = web_search.build(WebSearchSettings(base_url=server.url, timeout=0.3))
    assert "within 0.3 s" in await refusal(tool, query="bridge")
    release.set()
