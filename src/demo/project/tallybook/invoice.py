"""What is charged, and for what."""

from dataclasses import dataclass, field
from typing import List

from .money import percent_of


@dataclass(frozen=True)
class Line:
    """One position of an invoice; ``unit_price`` is in cents."""

    text: str
    quantity: int
    unit_price: int

    @property
    def amount(self) -> int:
        return self.quantity * self.unit_price


@dataclass
class Invoice:
    """Lines with one discount and one tax rate, both in whole per cent."""

    lines: List[Line] = field(default_factory=list)
    discount_percent: int = 0
    tax_percent: int = 0

    @property
    def net(self) -> int:
        gross = sum(line.amount for line in self.lines)
        return gross - percent_of(gross, self.discount_percent)

    @property
    def total(self) -> int:
        return self.net + percent_of(self.net, self.tax_percent)
