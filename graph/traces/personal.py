"""What tells who somebody is, or what belongs to them: replaced in exports where that is asked for.

Each pattern takes what it is sure of: where a checksum or a form tells an account from any other number, it is checked.
"""

import ipaddress
import re
from typing import Final

from graph.traces.patterns import Pattern, begin

_COUNTRY = re.compile(
    r"1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]"
    r"|2[1-689][0-9]|3[578][0-9]|42[0-9]|50[0-9]|59[0-9]|6[7-9][0-9]|8[0578][0-9]|9[679][0-9]"
)
"""Codes of countries: none is the beginning of another."""
_NORTH_AMERICAN = re.compile(r"\+1[ .-]?\(?[2-9][0-9]{2}\)?[ .-]?[0-9]{3}[ .-]?[0-9]{4}(?![0-9])")


def _phone(match: re.Match[str]) -> int:
    """Take what has a country's code and as many digits as a number there may have."""
    text = match[0]
    country = _COUNTRY.match(text, 1)
    if country is None or re.fullmatch(r"\+[0-9]+\.[0-9]+", text):  # a decimal
        return 0
    if country[0] == "1":
        number = _NORTH_AMERICAN.match(text)
        return len(number[0]) if number else 0
    return len(text) if 8 <= sum(map(str.isdigit, text)) <= 15 else 0


def _ip4(match: re.Match[str]) -> int:
    try:
        ipaddress.IPv4Address(match[0])
    except ValueError:
        return 0
    return len(match[0])


def _ip6(match: re.Match[str]) -> int:
    """Take addresses of hosts and networks; `12:30:45` and `a[1::2]` are none."""
    text = match[0] if match[0].endswith("::") else match[0].rstrip(".:")
    try:
        first = int(ipaddress.IPv6Address(text)) >> 112
    except ValueError:
        return 0
    # Global, private, of one link, of many.
    used = 0x2000 <= first < 0x4000 or 0xFC00 <= first < 0xFE00 or 0xFE80 <= first < 0xFEC0 or first >= 0xFF00
    return len(text) if used else 0


def _card(match: re.Match[str]) -> int:
    """Take what has a card's check digit (Luhn)."""
    digits = [int(digit) for digit in reversed(match[0]) if digit.isdigit()]
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]
    return len(match[0]) if (sum(digits[::2]) + sum(doubled)) % 10 == 0 else 0


def _iban(match: re.Match[str]) -> int:
    """Take the longest beginning, up to the end of a word, that has an account's check digits (ISO 7064)."""
    text = match[0]
    for end in sorted({len(text), *(space.start() for space in re.finditer(" ", text))}, reverse=True):
        account = text[:end].replace(" ", "")
        number = "".join(str(int(character, 36)) for character in account[4:] + account[:4])
        if 15 <= len(account) <= 34 and int(number) % 97 == 1:
            return end
    return 0


_GROUPS = (
    # Visa, Mastercard, Discover, JCB
    r"(?:(?<=4)[0-9]{3}|(?<=5)[1-5][0-9]{2}|(?<=2)(?:2[2-9][0-9]|[3-6][0-9]{2}|7[01][0-9])"
    r"|(?<=6)(?:011|4[4-9][0-9]|5[0-9]{2})|(?<=3)5[2-8][0-9])(?P<a>[ -]?)[0-9]{4}(?P=a)[0-9]{4}(?P=a)[0-9]{4}"
    # American Express, Diners Club
    r"|(?<=3)[47][0-9]{2}(?P<b>[ -]?)[0-9]{6}(?P=b)[0-9]{5}"
    r"|(?<=3)(?:0[0-5]|[68][0-9])[0-9](?P<c>[ -]?)[0-9]{6}(?P=c)[0-9]{4}"
)
"""The digits of a card after the first, in the groups that are printed on it."""
PERSONAL: Final = (
    Pattern(
        "email",
        re.compile(
            begin(r"[^\W_]", r"\w.%+-")
            + r"[\w.%+-]{0,63}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])"
        ),
        ("@",),
    ),
    Pattern(
        "iban",
        re.compile(
            begin("[A-Z]", "A-Za-z0-9_") + r"[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9_])"
        ),
        length=_iban,
        shapes=(b"AA00",),
    ),
    Pattern(
        "card",
        re.compile(begin("[2-6]", r"\w.+-") + rf"(?:{_GROUPS})(?![\w-]|\.[0-9])"),
        length=_card,
        shapes=(b"0" * 14, b"0000 0000 0000", b"0000 000000 0000"),
    ),
    Pattern(
        "ip",
        re.compile(begin("[0-9]", r"\w.-") + r"[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])"),
        length=_ip4,
        hint=re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]"),
    ),
    Pattern(
        "ip",
        re.compile(begin("[0-9A-Fa-f]", r"\w:.") + r"[0-9A-Fa-f]{3}:[0-9A-Fa-f:.]{2,41}(?![0-9A-Za-z_])"),
        length=_ip6,
        hint=re.compile(r":[0-9A-Fa-f]{0,4}:"),
    ),
    Pattern(
        "phone",
        re.compile(begin(r"\+", r"\w+") + r"[1-9](?:[ .()/-]{0,2}[0-9]){6,14}(?![0-9A-Za-z_])"),
        ("+",),
        length=_phone,
    ),
)
