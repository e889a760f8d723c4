"""Names under which people keep keys: what stands under one is neither stored nor shown."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_NAME = re.compile(
    r"(?:(?<!cache)key|(?<!eos)(?<!bos)(?<!pad)(?<!stop)token|secret|password|passwd|authorization|auth|bearer|cookie"
    r"|credentials?)$"
)


def names_secret(name: str) -> bool:
    """Whether a field, header, flag or parameter of this name holds a key (`api_key`, `X-Auth-Token`, `apiKey`)."""
    return _NAME.search(re.sub(r"[^a-z]", "", name.lower())) is not None


def address_holds_secret(address: str) -> bool:
    """Whether an address holds a password, or a key among its parameters.

    Raises:
        ValueError: it is no address.
    """
    parts = urlsplit(address)
    # without a scheme, everything is taken for a path
    return "@" in (parts.netloc or address) or any(names_secret(name) for name, _ in parse_qsl(parts.query))


def secret_within(value: Any) -> str | None:
    """Return the name of the first field in nested tables and lists that holds a key or an address with one."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if names_secret(str(name)) or _is_address_with_secret(inner):
                return str(name)
        return secret_within(list(value.values()))
    if isinstance(value, list):
        return next((name for inner in value if (name := secret_within(inner))), None)
    return None


def _is_address_with_secret(value: Any) -> bool:
    try:
        return isinstance(value, str) and "://" in value and address_holds_secret(value)
    except ValueError:
        return False
