"""The HTTP client of tools that ask a service which the configuration names."""

import ssl
from functools import cache

import httpx

from graph.tools.user_agent import user_agent


@cache
def tls_context() -> ssl.SSLContext:
    """Made once, as it reads all certificates; SSL_CERT_FILE of the environment is honoured."""
    return httpx.create_ssl_context()


def open_client(seconds: float) -> httpx.AsyncClient:
    """A client that names itself, uses the environment's proxies, and waits `seconds` at most for more of an answer."""
    return httpx.AsyncClient(
        headers={"User-Agent": user_agent()},
        timeout=httpx.Timeout(seconds, connect=min(seconds, 10)),
        verify=tls_context(),
        follow_redirects=True,
        max_redirects=5,
    )
