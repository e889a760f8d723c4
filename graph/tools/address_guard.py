"""Connections to public addresses only.

A page's address comes from a model, and a page may redirect anywhere. What is checked is therefore the address that is
connected to: the guard resolves a host's name itself, refuses it unless all its addresses are public, and connects to
one it has just checked. A second look-up that answers otherwise (DNS rebinding) cannot happen, as there is none. The
HTTP layer above keeps the name for the Host header and for TLS.

Proxies are not used, whatever the environment says: a proxy would look names up again, out of the guard's sight.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import httpcore
import httpx

from graph.errors import ToolError
from graph.tools.http_client import tls_context

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Resolver = Callable[[str, int], Awaitable[list[str]]]

_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # protocol assignments, and one cloud's metadata service
            "100.64.0.0/10",  # carrier-grade NAT, and one cloud's metadata service
            "168.63.129.16/32",  # a public address that is a cloud's host to every machine in it
            "192.88.99.0/24",  # 6to4 relays
            "64:ff9b:1::/48",  # local-use NAT64
            "2001::/23",  # protocol assignments, with Teredo: a tunnel to an address of the sender's choice
            "3fff::/20",  # documentation
            "5f00::/16",  # segment routing
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressGuard:
    """Decides which addresses may be read, and looks names up."""

    def __init__(self, allow_hosts: Collection[str] = (), resolve: _Resolver | None = None) -> None:
        """Allow the hosts named in `allow_hosts` any address; `resolve` replaces the system's resolver."""
        self._allowed = {_bare(host) for host in allow_hosts}
        self._resolve = resolve or _system_resolver

    def check_url(self, url: httpx.URL) -> None:
        """Refuse what can be refused before any look-up.

        Raises:
            ToolError: the scheme is not http or https, there is no host, or the address holds credentials.
        """
        if url.scheme not in {"http", "https"}:
            raise ToolError(f"Only http and https addresses can be read, not {url.scheme or 'an address without one'}.")
        if not url.host:
            raise ToolError("The address names no host: give it in full, such as https://example.com/page.")
        if url.userinfo:
            raise ToolError("An address with a user name or password in it is not read: leave that part out.")
        host = _bare(url.host)
        if host not in self._allowed and _is_odd_number(host):
            raise ToolError(f"The host {host!r} is an IP address in an unusual spelling, which is not read.")

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of `host`, each of which may be connected to.

        Raises:
            ToolError: the name does not exist, or one of its addresses is not public.
            httpcore.ConnectError: the resolver did not answer; another try may succeed.
        """
        bare = _bare(host)
        try:
            found = [bare] if _parse(bare) else await self._resolve(bare, port)
        except socket.gaierror as error:
            if error.errno == socket.EAI_AGAIN:
                raise httpcore.ConnectError(f"the name {host} cannot be looked up now") from error
            raise ToolError(f"There is no host named {host}: check the address.") from error
        except (UnicodeError, ValueError) as error:
            raise ToolError(f"{host!r} is not a valid host name: check the address.") from error
        if bare not in self._allowed:
            for text in found:
                address = _parse(text)
                if address is None or not is_public(address):
                    raise ToolError(
                        f"{host} is at an internal address, which is not read: use a page on the public internet."
                    )
        return found


def is_public(address: _Address) -> bool:
    """Whether an address belongs to the public internet, by itself and by the IPv4 address that it may carry."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if carried is None and address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return is_public(carried)
        if address.is_site_local:
            return False
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    return address.is_global and not (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections to addresses that the guard has checked."""

    def __init__(self, guard: AddressGuard, inner: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the host's addresses that answers.

        Raises:
            ToolError: as `AddressGuard.addresses`.
            httpcore.ConnectError, httpcore.ConnectTimeout: no address answers.
        """
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in await self._guard.addresses(host, port):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class GuardedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport on a connection pool that opens its connections through the guard."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__(verify=tls_context(), trust_env=False)
        # httpx has no argument for the network backend, hence its pool is replaced before it is used
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls_context(),
            max_connections=10,
            network_backend=GuardedBackend(guard),
        )


async def _system_resolver(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _bare(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _parse(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_odd_number(host: str) -> bool:
    """Whether the C library would read `host` as an IPv4 address although it is not written as one (`0x7f.1`)."""
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeError):
        return False
    return _parse(host) is None
