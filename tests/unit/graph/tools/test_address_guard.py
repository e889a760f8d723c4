"""Which addresses are public."""

import ipaddress
import socket

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.errors import ToolError
from graph.tools.address_guard import AddressGuard, is_public

INTERNAL = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",  # a cloud's metadata service
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",  # another's
    "169.254.169.254",  # most others'
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",  # one more's
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "93.184.215.14",
    "172.32.0.1",
    "100.128.0.1",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2606:4700::1111",
]


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_addresses(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_however_it_is_carried(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert is_public(ipaddress.IPv6Address(prefix | number)) == is_public(address)
    assert is_public(ipaddress.IPv6Address(0x2002 << 112 | number << 80)) == is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:text/html,hi",
        "//example.com",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:pass@example.com/",
        "https://:pass@example.com/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://127.1./",
    ],
)
def test_what_is_refused_without_a_look_up(url: str) -> None:
    with pytest.raises(ToolError):
        AddressGuard().check_url(httpx.URL(url))


@pytest.mark.parametrize("url", ["http://example.com", "HTTPS://EXAMPLE.com:8443/a?b#c", "http://1.1.1.1/"])
def test_ordinary_addresses_pass(url: str) -> None:
    AddressGuard().check_url(httpx.URL(url))


def guard(*answers: str, allow_hosts: tuple[str, ...] = ()) -> AddressGuard:
    async def resolve(host: str, port: int) -> list[str]:
        return list(answers)

    return AddressGuard(allow_hosts, resolve)


async def test_name_with_one_internal_address_among_public_ones_is_refused() -> None:
    with pytest.raises(ToolError, match="internal address"):
        await guard("1.1.1.1", "10.0.0.1").addresses("mixed.test", 80)


async def test_answer_that_is_no_address_is_refused() -> None:
    with pytest.raises(ToolError, match="internal address"):
        await guard("localhost").addresses("odd.test", 80)


async def test_public_name_gives_its_addresses() -> None:
    assert await guard("1.1.1.1", "2606:4700::1111").addresses("good.test", 80) == ["1.1.1.1", "2606:4700::1111"]


async def test_allowed_host_may_be_internal_and_only_that_host() -> None:
    allowed = guard("10.0.0.1", allow_hosts=("Wiki.Intranet.",))
    assert await allowed.addresses("wiki.intranet", 80) == ["10.0.0.1"]
    with pytest.raises(ToolError):
        await allowed.addresses("x.wiki.intranet", 80)


async def test_resolver_that_does_not_answer_may_be_asked_again() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    with pytest.raises(httpcore.ConnectError):
        await AddressGuard(resolve=resolve).addresses("a.test", 80)


@pytest.mark.parametrize("host", ["a" * 300, "..", "a..b", "\u0661.test"])
async def test_host_that_cannot_be_a_name(host: str) -> None:
    with pytest.raises((ToolError, httpcore.ConnectError)):
        await AddressGuard().addresses(host, 80)
