"""Spellings of one unit agree, and two units stay two."""

import pytest

from evals.normalise import plain
from evals.units import unit

SAME = [
    ["m", "metre", "meters", "metres"],
    ["m/s", "metres per second", "meters/second", "m per s"],
    ["m²", "m^2", "m2", "square metres", "sq. m", "sq m", "metres squared"],
    ["ft²", "square feet", "sq ft", "ft^{2}", "square foot"],
    ["m³", "cubic metres", "m^3"],
    ["km", "kilometres", "kilometers", "KM"],
    ["km/h", "kilometres per hour", "kph", "kmh", "km per hour"],
    ["mph", "miles per hour", "mi/h"],
    ["°C", "degrees Celsius", "degree C", "celsius", r"^\circ C", "℃"],
    ["°F", "degrees Fahrenheit", "Fahrenheit"],
    ["$", "dollars", "dollar", "USD", "US dollars"],
    ["€", "euros", "EUR"],
    ["£", "pounds", "GBP"],
    ["l", "L", "litres", "liter", "Liters"],
    ["kg", "kilograms", "kilos", "Kg"],
    ["s", "seconds", "sec", "secs."],
    ["h", "hours", "hrs"],
    ["min", "minutes", "mins"],
    ["nautical miles", "nmi"],
    ["MB", "megabytes"],
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda s: s[0])
def test_one_unit(spellings: list[str]) -> None:
    found = {unit(plain(text))[0] for text in spellings}
    assert len(found) == 1
    assert "" not in found


def test_two_units() -> None:
    found = [unit(plain(spellings[0]))[0] for spellings in SAME]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "text", ["", "times", "mouse", "gold", "free seats", "letters", "smiles", "sentences", "Kenya", "%"]
)
def test_no_unit(text: str) -> None:
    assert unit(text) == ("", 0)


def test_where_it_ends() -> None:
    assert unit("litres of petrol") == ("l", 6)
    assert unit("metres per second in all") == ("m/s", 17)
    assert unit("m per person") == ("m", 1)
