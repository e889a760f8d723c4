"""Exact arithmetic on short expressions, bounded in time and memory whatever the text.

`2^10`, `(1+1+1)*8`, `3/4`, `sqrt(16)`. Never `eval`: text of a model is data. Values are fractions, so that 0.1 + 0.2
is 0.3; a root that is not rational, a division by zero or a power of more than `_BITS` bits has no value here.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+|\*\*|sqrt|[-+*/^()])")
_LENGTH = 300
_BITS = 8192
_DEPTH = 30
"""Parentheses, signs and powers within each other: graders are called deep inside other programs' stacks."""


class _NoValueError(Exception):
    """The text is not an expression, or has no exact value within the bounds."""


def evaluate(text: str) -> Fraction | None:
    """The value of an arithmetic expression; None where the text is not one or has no exact value within the bounds."""
    if len(text) > _LENGTH:
        return None
    try:
        parser = _Parser(_tokens(text.strip()))
        value = parser.sum()
    except _NoValueError:
        return None
    return value if parser.position == len(parser.tokens) else None


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _NoValueError
        tokens.append("^" if match[1] == "**" else match[1])
        position = match.end()
    return tokens


@dataclass
class _Parser:
    tokens: list[str]
    position: int = 0
    depth: int = 0

    def sum(self) -> Fraction:
        value = self.product()
        while operator := self.take("+", "-"):
            right = self.product()
            value = value + right if operator == "+" else value - right
        return value

    def product(self) -> Fraction:
        value = self.signed()
        while operator := self.take("*", "/"):
            right = self.signed()
            if operator == "/" and not right:
                raise _NoValueError
            value = value * right if operator == "*" else value / right
        return value

    def signed(self) -> Fraction:
        self.depth += 1
        if self.depth > _DEPTH:
            raise _NoValueError
        match self.take("+", "-"):
            case "-":
                value = -self.signed()
            case "+":
                value = self.signed()
            case _:
                value = self.power()
        self.depth -= 1
        return value

    def power(self) -> Fraction:
        base = self.atom()
        if not self.take("^"):
            return base
        exponent = self.signed()
        bits = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or bits * abs(exponent) > _BITS or (not base and exponent < 0):
            raise _NoValueError
        return Fraction(base ** int(exponent))

    def atom(self) -> Fraction:
        if self.take("("):
            value = self.sum()
            self.expect(")")
            return value
        if self.take("sqrt"):
            self.expect("(")
            value = self.sum()
            self.expect(")")
            return _root(value)
        if self.position == len(self.tokens) or not self.tokens[self.position][-1].isdigit():
            raise _NoValueError
        self.position += 1
        return Fraction(self.tokens[self.position - 1])

    def take(self, *wanted: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in wanted:
            self.position += 1
            return self.tokens[self.position - 1]
        return None

    def expect(self, wanted: str) -> None:
        if not self.take(wanted):
            raise _NoValueError


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise _NoValueError
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    if root * root != value:
        raise _NoValueError
    return root
