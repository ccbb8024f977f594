import unittest
from datetime import date

from tallybook import (
    Invoice,
    Line,
    format_cents,
    parse_cents,
    payment_plan,
    percent_of,
    split_evenly,
)


class MoneyTest(unittest.TestCase):
    def test_amounts_are_read_and_written_back(self):
        for text in ("0.00", "0.07", "12.50", "-3.99", "1,234,567.89"):
            self.assertEqual(format_cents(parse_cents(text)), text)

    def test_half_cents_are_rounded_away_from_zero(self):
        self.assertEqual(percent_of(50, 25), 13)
        self.assertEqual(percent_of(-50, 25), -13)

    def test_text_that_is_no_amount_is_refused(self):
        for text in ("", "1.5", "twelve", "1.234"):
            with self.assertRaises(ValueError):
                parse_cents(text)


class InvoiceTest(unittest.TestCase):
    def test_discount_comes_off_before_tax(self):
        invoice = Invoice([Line("Desk", 2, 10_000)], discount_percent=10, tax_percent=20)
        self.assertEqual(invoice.net, 18_000)
        self.assertEqual(invoice.total, 21_600)

    def test_an_invoice_without_lines_costs_nothing(self):
        self.assertEqual(Invoice(tax_percent=19).total, 0)


class PlanTest(unittest.TestCase):
    def test_even_totals_are_split_evenly(self):
        self.assertEqual(split_evenly(90_00, 3), [30_00, 30_00, 30_00])

    def test_a_plan_adds_up_to_the_total(self):
        amounts = [instalment.amount for instalment in payment_plan(100_00, 3, date(2026, 1, 15))]
        self.assertEqual(sum(amounts), 100_00)
        self.assertEqual(amounts, [33_34, 33_33, 33_33])

    def test_short_months_end_on_their_last_day(self):
        plan = payment_plan(90_00, 3, date(2026, 1, 31))
        self.assertEqual([instalment.due.day for instalment in plan], [31, 28, 31])

    def test_at_least_one_part_is_needed(self):
        with self.assertRaises(ValueError):
            split_evenly(100, 0)


if __name__ == "__main__":
    unittest.main()
