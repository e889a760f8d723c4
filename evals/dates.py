"""Calendar dates in the forms that people write."""

import re
from datetime import date

_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
]  # fmt: skip
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTH = rf"(?P<month>{'|'.join(rf'{m}|{m[:4]}|{m[:3]}' for m in _MONTHS)})\.?"
_WEEKDAY = rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)}),? )?"
_DAY = r"(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_CLOCK = r"(?:[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]00:?00)?)?"
_FORMS = [
    re.compile(
        rf"{_WEEKDAY}(?P<year>\d{{4}})(?P<separator>[-/.])(?P<m>\d{{1,2}})(?P=separator)(?P<d>\d{{1,2}}){_CLOCK}(?!\d)",
        re.I,
    ),
    re.compile(rf"{_WEEKDAY}{_DAY}(?: of)?[ -]{_MONTH},?[ -](?P<year>\d{{4}})(?!\d)", re.I),
    re.compile(rf"{_WEEKDAY}{_MONTH} {_DAY},? (?P<year>\d{{4}})(?!\d)", re.I),
    re.compile(rf"{_WEEKDAY}(?P<year>\d{{4}}),? {_MONTH} {_DAY}(?!\d)", re.I),
    re.compile(
        rf"{_WEEKDAY}(?P<a>\d{{1,2}})(?P<separator>[-/.])(?P<b>\d{{1,2}})(?P=separator)(?P<year>\d{{4}})(?!\d)", re.I
    ),
]


def read_date(text: str) -> frozenset[date]:
    """The dates that a whole plain text may mean: none, one, or two where day and month cannot be told apart.

    A weekday that does not fit is no date: the text contradicts itself.
    """
    text = re.sub(r"^on (?=\S)", "", text.strip().rstrip(" .,;"), flags=re.IGNORECASE)
    for form in _FORMS:
        if match := form.fullmatch(text):
            return _meant(match)
    return frozenset()


def mentioned_dates(text: str) -> frozenset[date]:
    """Every date in a plain text."""
    found = [_meant(match) for form in _FORMS for match in form.finditer(text)]
    return frozenset().union(*found)


def without_dates(text: str) -> str:
    """A plain text in which no day or year of a date can be taken for a number of its own."""
    for form in _FORMS:
        text = form.sub("that date", text)
    return text


def _meant(match: re.Match[str]) -> frozenset[date]:
    parts = match.groupdict()
    if parts.get("a"):
        orders = {(int(parts["a"]), int(parts["b"])), (int(parts["b"]), int(parts["a"]))}
    elif parts.get("m"):
        orders = {(int(parts["m"]), int(parts["d"]))}
    else:
        starts = [month[:3] for month in _MONTHS]
        orders = {(starts.index(parts["month"].casefold()[:3]) + 1, int(parts["day"]))}
    dates = set()
    for month, day in orders:
        try:
            dates.add(date(int(parts["year"]), month, day))
        except ValueError:  # no such day
            continue
    weekday = (parts["weekday"] or "").casefold()
    return frozenset(found for found in dates if not weekday or _WEEKDAYS[found.weekday()] == weekday)
