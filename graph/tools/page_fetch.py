"""Fetching one page within limits: of addresses, redirects, bytes and kinds of content."""

import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from graph.errors import ToolError
from graph.tools.address_guard import AddressGuard, GuardedTransport
from graph.tools.retries import RetryableStatusError, certificate_error, raise_if_retryable, retrying
from graph.tools.user_agent import user_agent

MAX_REDIRECTS = 5

_KINDS = {"application/json", "application/xml", "application/xhtml+xml", "application/ld+json", "application/yaml"}
_HEADERS = {
    "Accept": "text/html, application/xhtml+xml, text/plain;q=0.9, text/markdown;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True)
class Page:
    """What a server sent."""

    url: str
    """After redirects."""
    content: bytes
    """Decompressed."""
    kind: str
    """The media type, lower case, without parameters; empty if the server did not say."""
    charset: str | None
    """As the server said."""
    cut: bool
    """The page is longer than the limit, and its rest was not read."""


async def fetch_page(url: str, *, guard: AddressGuard, max_bytes: int, seconds: float) -> Page:
    """Fetch a page through the guard, following redirects and retrying what may succeed.

    Raises:
        ToolError: the address is refused, the server cannot be reached or answers with an error, or the content is of a
            kind that holds no text. The caller bounds the whole by a timeout; `seconds` bounds the waits.
    """
    address = _parse_url(url)

    async def check(request: httpx.Request) -> None:
        guard.check_url(request.url)

    client = httpx.AsyncClient(
        transport=GuardedTransport(guard),
        trust_env=False,
        headers=_HEADERS | {"User-Agent": user_agent()},
        timeout=httpx.Timeout(seconds, connect=min(seconds, 10)),
        event_hooks={"request": [check]},
    )
    async with client:
        try:
            async for attempt in retrying(seconds):
                with attempt:
                    return await _fetch_once(client, address, max_bytes)
        except RetryableStatusError as error:
            raise ToolError(
                f"{address.host} answers {error}, also when asked again: try later, or another page."
            ) from error
        except httpx.TimeoutException as error:
            raise ToolError(f"{address.host} does not answer in time: try another page.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ToolError(_connection_message(address.host, error)) from error
    raise AssertionError("the last attempt returns or raises")


def _parse_url(url: str) -> httpx.URL:
    text = url.strip()
    if "://" not in text and not text.lower().startswith(("file:", "data:", "javascript:", "mailto:")):
        text = f"https://{text}"
    try:
        return httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(
            f"{url[:200]!r} is not an address: give it in full, such as https://example.com/page."
        ) from error


def _connection_message(host: str, error: Exception) -> str:
    if refused := certificate_error(error):
        reason = getattr(refused, "verify_message", "") or refused.reason or "TLS failure"
        return f"The secure connection to {host} failed ({reason}): use another page."
    if isinstance(error, httpx.ConnectError):
        return f"{host} cannot be reached: check the address, or use another page."
    return f"The connection to {host} broke ({error or type(error).__name__}): try again, or use another page."


async def _fetch_once(client: httpx.AsyncClient, url: httpx.URL, max_bytes: int) -> Page:
    request = client.build_request("GET", url)
    # redirects are followed here, as httpx would first read a redirect's body whole, of any size
    for _ in range(MAX_REDIRECTS + 1):
        response = await client.send(request, stream=True)
        try:
            if response.next_request is None:
                return await _read(response, max_bytes)
        finally:
            await response.aclose()
        request = response.next_request
    raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times: use another address.")


async def _read(response: httpx.Response, max_bytes: int) -> Page:
    raise_if_retryable(response)
    if not response.is_success:
        raise ToolError(_status_message(response))
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not (kind in _KINDS or kind.startswith("text/") or kind.endswith(("+json", "+xml")) or not kind):
        raise ToolError(f"{response.url} is {kind}, not a page of text: look for an HTML version of it.")
    content = bytearray()
    async for chunk in _decoded(response, max_bytes):
        content += chunk
        if len(content) > max_bytes:
            break
    cut = len(content) > max_bytes
    return Page(str(response.url), bytes(content[:max_bytes]), kind, response.charset_encoding, cut)


def _status_message(response: httpx.Response) -> str:
    status = f"{response.status_code} {response.reason_phrase}".strip()
    if response.status_code in {401, 403, 407, 451}:
        return f"{response.url} refuses to be read ({status}): use another page."
    return f"{response.url} answers {status}: check the address, or use another page."


async def _decoded(response: httpx.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """The body, decompressed in steps that stay near `max_bytes` however much a chunk expands.

    httpx decompresses a chunk whole, and one of 64 kB may hold gigabytes when it was compressed twice.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        async for chunk in response.aiter_raw():
            yield chunk
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise ToolError(f"{response.url} is compressed in a way that was not asked for ({encoding}): use another page.")
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # either a gzip or a zlib header
    left = max_bytes + 1
    first = True
    async for chunk in response.aiter_raw():
        try:
            data = decompressor.decompress(chunk, left)
        except zlib.error as error:
            if not (first and encoding == "deflate"):
                raise ToolError(
                    f"{response.url} is damaged (its compression does not decode): use another page."
                ) from error
            decompressor = zlib.decompressobj(wbits=-zlib.MAX_WBITS)  # some servers send deflate without a header
            data = decompressor.decompress(chunk, left)
        first = False
        left -= len(data)
        yield data
        if left <= 0 or decompressor.eof:
            return
