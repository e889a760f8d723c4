"""Which spellings name the same unit. Units are compared, never converted.

A conversion would make the question's own words a right answer to "how many metres per second are 72 miles per hour".
"""

import re

_SPELLINGS: dict[str, str] = {
    "mm": "millimetre millimeter",
    "cm": "centimetre centimeter",
    "m": "metre meter",
    "km": "kilometre kilometer kms",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yds",
    "mi": "mile",
    "nmi": "nautical_mile",
    "ha": "hectare",
    "acre": "acre",
    "mg": "milligram milligramme",
    "g": "gram gramme",
    "kg": "kilogram kilogramme kilo kgs",
    "t": "tonne metric_ton",
    "oz": "ounce",
    "lb": "pound lbs gbp £ pounds_sterling",  # the word alone is both the money and the weight
    "stone": "stone",
    "ml": "millilitre milliliter",
    "cl": "centilitre centiliter",
    "l": "litre liter ltr L",
    "gal": "gallon us_gallon gals",
    "ms": "millisecond msec",
    "s": "second sec secs",
    "min": "minute mins",
    "h": "hour hr hrs",
    "day": "day",
    "week": "week",
    "month": "month",
    "year": "year yr yrs",
    "°": "degree deg",
    "°C": "°_c degree_celsius degree_c deg_c celsius centigrade ℃",
    "°F": "°_f degree_fahrenheit degree_f deg_f fahrenheit ℉",
    "K": "kelvin",
    "mph": "mph mi/h",
    "km/h": "kph kmh km/h",
    "kn": "knot",
    "$": "dollar usd us_dollar us$ buck",
    "€": "euro eur",
    "¥": "yen jpy",
    "cent": "cent",
    "bit": "bit",
    "byte": "byte",
    "kB": "kilobyte kb",
    "MB": "megabyte",
    "GB": "gigabyte",
    "TB": "terabyte",
    "J": "joule",
    "kJ": "kilojoule",
    "kcal": "kilocalorie",
    "W": "watt",
    "kW": "kilowatt",
    "kWh": "kilowatt_hour",
    "V": "volt",
    "A": "ampere amp",
    "Ω": "ohm",
    "Hz": "hertz",
    "kHz": "kilohertz",
    "MHz": "megahertz",
    "GHz": "gigahertz",
    "Pa": "pascal",
    "kPa": "kilopascal",
    "N": "newton",
    "mol": "mole",
}
"""Symbol to words; a plural in s is understood, and `_` stands for a space or hyphen."""


def _names() -> dict[str, str]:
    names = {}
    for symbol, words in _SPELLINGS.items():
        names[symbol] = symbol
        for word in words.split():
            name = word.replace("_", " ")
            names |= {name: symbol, f"{name}s": symbol, name.replace(" ", "s ", 1): symbol}
    return names


_NAMES = _names()
_ALTERNATIVES = "|".join(name.replace("\\ ", "[ -]") for name in map(re.escape, sorted(_NAMES, key=len, reverse=True)))
_FOLDED = {name.casefold(): symbol for name, symbol in reversed(_NAMES.items())}
_ATOM = re.compile(
    r"(?:(?P<before>square|sq\.?|cubic|cu\.?)[ -]?)?"
    rf"(?P<name>{_ALTERNATIVES})"
    r"\.?(?P<power>\^?\(?[23]\)?(?!\d)| squared| cubed)?(?![^\W_])",
    re.IGNORECASE,
)
_PER = re.compile(r" ?(?:/| per(?: |$)|\^?\(?-1\)?) ?")


def unit(text: str) -> tuple[str, int]:
    """The unit that a plain text begins with, in one spelling, and where it ends; `("", 0)` where it begins with none.

    `metres per second` and `m/s` are one, `m` and `km` are not. Case counts only where it tells two units apart.
    """
    first, end = _power(text)
    if not first:
        return "", 0
    if (per := _PER.match(text, end)) and (second := _power(text[per.end() :]))[0]:
        compound = f"{first}/{second[0]}"
        return _NAMES.get(compound, "mph" if compound == "mi/h" else compound), per.end() + second[1]
    return first, end


def _power(text: str) -> tuple[str, int]:
    match = _ATOM.match(text)
    if match is None:
        return "", 0
    name = match["name"].replace("-", " ")
    if (len(name) == 1 and name not in _NAMES) or (name.casefold() == "in" and text[match.end() :].strip(" .,;)/")):
        return "", 0  # "5 a day", "7.67 in change"
    symbol = _NAMES.get(name) or _FOLDED[name.casefold()]
    before, power = (match["before"] or "").casefold(), match["power"] or ""
    if before[:2] == "sq" or "2" in power or "squared" in power:
        symbol += "²"
    elif before[:2] == "cu" or "3" in power or "cubed" in power:
        symbol += "³"
    return symbol, match.end()
