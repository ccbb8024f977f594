"""Invoices in whole cents: lines, discounts, tax and payment plans."""

from .invoice import Invoice, Line
from .money import format_cents, parse_cents, percent_of
from .plan import Instalment, payment_plan, split_evenly

__all__ = [
    "Instalment",
    "Invoice",
    "Line",
    "format_cents",
    "parse_cents",
    "payment_plan",
    "percent_of",
    "split_evenly",
]
