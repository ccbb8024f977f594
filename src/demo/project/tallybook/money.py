"""Amounts of money as whole cents."""

import re

_AMOUNT = re.compile(r"(-?)(\d+)(?:\.(\d{2}))?")


def parse_cents(text: str) -> int:
    """Read ``"12.50"`` or ``"12"`` as cents."""
    match = _AMOUNT.fullmatch(text.strip().replace(",", ""))
    if match is None:
        raise ValueError(f"not an amount of money: {text!r}")
    sign, whole, fraction = match.groups()
    cents = int(whole) * 100 + int(fraction or 0)
    return -cents if sign else cents


def format_cents(cents: int) -> str:
    """Write cents as ``"1,234.50"``."""
    sign = "-" if cents < 0 else ""
    whole, fraction = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{fraction:02}"


def percent_of(cents: int, percent: int) -> int:
    """``percent`` per cent of an amount, halves rounded away from zero."""
    product = abs(cents) * percent
    rounded = (product + 50) // 100
    return -rounded if cents < 0 else rounded
