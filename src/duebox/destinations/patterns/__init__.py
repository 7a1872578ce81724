"""Which events are wanted, said as an event pattern of Amazon EventBridge.

A pattern has the shape of an event. Every leaf is a list, and one entry of it must fit; all fields must.

    >>> pattern = compile({"detail-type": [{"prefix": "order."}], "detail": {"amount": [{"numeric": [">", 100]}]}})
    >>> pattern.matches({"detail-type": "order.paid", "detail": {"amount": 150}})
    True
    >>> pattern.why({"detail-type": "order.paid", "detail": {"amount": 20}})
    'detail.amount is 20; wanted above 100'

The answers are those of AWS's own engine, event-ruler 2.0.1. Where it would ignore a part of a pattern in silence, the
pattern is refused: a field that is named twice, a `$or` that is not one, an empty list to leave out. Where it errs (a
plain text beside a number and a prefix, a network of addresses asked about a number), the documented answer is given.

    reading      a pattern → alternatives, each a set of conditions; refuses what cannot be meant
    matchers     one entry of a list → a test and its words
    texts numbers addresses anything_but        what the tests do
    finding      the values of a field in an event
    arrays       conditions that must hold in the same element
    telling      why, in words
"""

from __future__ import annotations

from duebox.destinations.patterns.pattern import Pattern, compile

__all__ = ["Pattern", "compile"]
