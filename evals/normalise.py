"""One spelling for the many ways in which models and data sets write the same thing.

`plain` undoes typography (Unicode forms, LaTeX, Markdown) and keeps every character that carries a value; `key` also
drops what does not change a short text answer: case, accents, a leading article, quotation marks, a final dot.
"""

import re
import unicodedata

LIMIT = 10_000
"""Characters looked at, from the end: a final answer stands at the end, and grading stays bounded in time."""

_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_FRACTION = re.compile("[¼-¾⅐-⅞↉]")
_DASH = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_SINGLE_QUOTE = re.compile("[\u2018-\u201b\u2032\u00b4`]")
_DOUBLE_QUOTE = re.compile("[\u201c-\u201f\u2033«»]")
_TIMES = re.compile("[\u00d7\u00b7\u22c5\u2219\u2217]")

_MATH = re.compile(r"\$(?=[^\s$])([^$\n]*[^\s$])\$(?!\d)")
_GROUP = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|operatorname|mbox|boxed|fbox)\s*{([^{}]*)}"
)
_FRAC = re.compile(r"(?P<whole>\d)?\\[dt]?frac\s*(?:{(?P<a>[^{}]*)}\s*{(?P<b>[^{}]*)}|(?P<c>\d)\s*(?P<d>\d))")
_SQRT = re.compile(r"\\sqrt\s*(?:{([^{}]*)}|(\d))")
_SCRIPT = re.compile(r"([\^_])\s*{([^{}]*)}")
_SPACE = re.compile(r"\\(?:[,;: ]|quad\b|qquad\b)|(?<=\S)~(?=\S)")
_COMMANDS = {
    r"\left": "", r"\right": "", r"\times": "*", r"\cdot": "*", r"\div": "/", r"\pm": "±", r"\degree": "°",
    r"\circ": "°", r"\pi": "pi", r"\approx": "≈", r"\displaystyle": "",
}  # fmt: skip
_COMMAND = re.compile("|".join(rf"{re.escape(command)}(?![a-zA-Z])" for command in _COMMANDS))
_BOLD = re.compile(r"(?<![\w*])(\*\*|__|\*)(?=[^\s*_])([^*\n]{0,300}?[^\s*])\1(?![\w*]|\.\w)")

_DOTTED = re.compile(r"(?<=[^\W\d])\.(?=\s|$|[^\W\d])")
_ARTICLE = re.compile(r"^(?:the|an?) +(?=\S)")
_EXCLAIMED = re.compile(r"(?<=[^\W\d])!$")  # 5! is a factorial


def plain(text: str) -> str:
    """The text without Unicode variants, LaTeX or Markdown, on one line. Digits and signs keep their value."""
    text = _latex(_unicode(text[-LIMIT:]))
    for _ in range(2):
        text = _BOLD.sub(r"\2", text)
    return " ".join(text.split())


def key(text: str) -> str:
    """What two text answers must share to be the same. Takes any text; `plain` is applied first."""
    text = plain(text).casefold().replace('"', "").replace("&", " and ")
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    text = re.sub(r",(?=\s|$)", " ", _DOTTED.sub("", text))
    text = re.sub(r"([\^_])\((\w+)\)", r"\1\2", text)
    text = _EXCLAIMED.sub("", " ".join(text.split()).rstrip(" ,;:.?"))
    text = re.sub(r"^'(.*)'$", r"\1", text)
    return _ARTICLE.sub("", text)


def _unicode(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda m: f"^({unicodedata.normalize('NFKC', m[0])})", text)
    text = _FRACTION.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]), text)
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    text = _DASH.sub("-", text)
    text = _DOUBLE_QUOTE.sub('"', _SINGLE_QUOTE.sub("'", text))
    text = _TIMES.sub("*", text).replace("÷", "/")
    return "".join(_character(c) for c in text)


def _character(c: str) -> str:
    if c.isascii():
        return c
    match unicodedata.category(c):
        case "Nd":
            return str(unicodedata.decimal(c))
        case "Cf":  # zero-width and direction marks
            return ""
        case _:
            return c


def _latex(text: str) -> str:
    text = re.sub(r"\\[()\[\]]|\$\$", " ", text)
    text = _COMMAND.sub(lambda m: _COMMANDS[m[0]], text)
    text = _MATH.sub(r"\1", text)
    if "\\" in text or "{" in text or "°" in text:
        text = text.replace(r"\!", "").replace("{,}", ",")
        text = re.sub(r"\^\s*(?:{\s*°\s*}|°)", "°", text)
        for _ in range(20):  # innermost braces first
            before = text
            text = _GROUP.sub(r"\1", text)
            text = _FRAC.sub(_fraction, text)
            text = _SQRT.sub(lambda m: f"sqrt({m[1] or m[2]})", text)
            text = _SCRIPT.sub(r"\1(\2)", text)
            if text == before:
                break
        text = _SPACE.sub(" ", text)
        text = re.sub(r"\\([%$#&_{}])", r"\1", text)
    return text


def _fraction(match: re.Match[str]) -> str:
    whole = f"{match['whole']} " if match["whole"] else ""
    return f"{whole}({match['a'] or match['c']})/({match['b'] or match['d']})"
