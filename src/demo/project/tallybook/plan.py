"""Paying an invoice in monthly instalments."""

import calendar
from dataclasses import dataclass
from datetime import date
from typing import List


@dataclass(frozen=True)
class Instalment:
    """An amount in cents and the day on which it is due."""

    due: date
    amount: int


def split_evenly(total: int, parts: int) -> List[int]:
    """Divide ``total`` cents into ``parts`` amounts that differ by one cent at most."""
    if parts < 1:
        raise ValueError("parts must be at least 1")
    if total < 0:
        raise ValueError("total must not be negative")
    share = total // parts
    return [share] * parts


def payment_plan(total: int, parts: int, first_due: date) -> List[Instalment]:
    """One instalment a month, due on the day of ``first_due`` or on the last day of a shorter month."""
    return [
        Instalment(_months_later(first_due, month), amount)
        for month, amount in enumerate(split_evenly(total, parts))
    ]


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))
