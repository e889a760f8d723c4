"""The official copy of an asset, streamed from a model hub and continued where it broke off."""

import os
import time
from urllib.parse import urlsplit

import httpx

from graph.assets.asset import HubFile
from graph.assets.partial import PartialFile, SourceError

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_FRUITLESS_TRIES = 3


def fetch_from_hub(hub: HubFile, partial: PartialFile) -> None:
    """Complete `partial`. Raises SourceError.

    `HF_ENDPOINT` names another hub and `HF_HUB_OFFLINE=1` forbids asking any, as Hugging Face's own tools have it.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        raise SourceError("HF_HUB_OFFLINE forbids asking the model hub")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{hub.repository}/resolve/main/{hub.file}"
    host = urlsplit(url).netloc
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    fruitless = 0
    with httpx.Client(timeout=timeout, follow_redirects=True, headers={"Accept-Encoding": "identity"}) as client:
        while not partial.complete:
            before = partial.done
            cause: httpx.HTTPError | None = None
            try:
                _stream(client, url, host, partial)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if before == partial.done and fruitless == 0:
                    raise SourceError(f"the model hub {host} does not answer") from error
                cause = error
            except httpx.HTTPError as error:
                cause = error
            except httpx.InvalidURL as error:
                raise SourceError(f"HF_ENDPOINT {endpoint!r} is not an address") from error
            fruitless = 0 if partial.done > before else fruitless + 1
            if fruitless == _FRUITLESS_TRIES:
                raise SourceError(f"the model hub {host} breaks off each time") from cause
            if fruitless:
                time.sleep(fruitless)


def _stream(client: httpx.Client, url: str, host: str, partial: PartialFile) -> None:
    """One request for everything that is missing. Returns or raises at the end of the answer, whole or not."""
    headers = {"Range": f"bytes={partial.done}-"} if partial.done else {}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == httpx.codes.OK:
            if partial.done:
                partial.restart()
        elif response.status_code != httpx.codes.PARTIAL_CONTENT:
            raise SourceError(f"the model hub {host} answers with status {response.status_code}")
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {partial.done}-"):
            raise SourceError(f"the model hub {host} answers with another range than it was asked for")
        # As it arrives: gathered into larger chunks, what came before a cut would be lost.
        for data in response.iter_raw():
            partial.write(data)
