"""The address at which a collector takes traces."""

from urllib.parse import urlsplit, urlunsplit

from graph.secret_names import address_holds_secret

_PATH = "/v1/traces"


def traces_address(endpoint: str) -> str:
    """Return the address that spans are posted to: `endpoint` with /v1/traces, unless it ends so already.

    Raises:
        ValueError: it is no address, or holds a key; the message repeats nothing of it.
    """
    try:
        parts = urlsplit(endpoint.strip())
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        holds_key = address_holds_secret(endpoint)
    except ValueError:
        usable = holds_key = False
    if holds_key:
        raise ValueError("an address holds no key: give it in the environment variable OTEL_EXPORTER_OTLP_HEADERS")
    if not usable:
        raise ValueError("it must look like http://127.0.0.1:4318")
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment=""))
