from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebox.dead_letters.fingerprint import error_line, fingerprint, group_id, masked, telling_line
from duebox.exceptions import Permanent, Refused, Throttled, Undelivered


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


def by_parsing(text):
    try:
        json.loads(text)
    except ValueError as caught:
        return caught


def by_parsing_elsewhere(text):
    try:
        json.loads(text)
    except ValueError as caught:
        return caught


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("no luck with 42", "no luck with <number>"),
        ("took 3.5 s, at 12:30:01, -7 degrees", "took <number> s, at <number>, <number> degrees"),
        ("order 'A-3' and \"B\" and `c`", "order <quoted> and <quoted> and <quoted>"),
        ("event 01937c6e-1111-7111-8111-11111111abcd is gone", "event <uuid> is gone"),
        ("at 0x7f00aa, key deadbeef99", "at <hex>, key <hex>"),
        ("the facade was defaced a decade ago", "the facade was defaced a decade ago"),
        ("GET https://example.com/a?b=1 failed", "GET <url> failed"),
        ("no mailbox ann.b@example.org", "no mailbox <mail>"),
        ("Key (email)=(ann) already exists.", "Key (email)=<value> already exists."),
        ("first line 1\nsecond line", "first line <number>"),
        ("", ""),
    ],
)
def test_what_differs_each_time_is_masked(message, left):
    assert masked(message) == left


@given(st.text())
def test_any_message_can_be_masked(message):
    assert len(masked(message)) <= 300 * len("<quoted>")


def test_errors_that_differ_in_their_values_alone_are_one():
    assert fingerprint(raised(ValueError("order 1 of 'ann'"))) == fingerprint(raised(ValueError("order 22 of 'bob'")))


def test_another_class_or_another_message_is_another_cause():
    known = fingerprint(raised(ValueError("order 1")))
    assert known not in {fingerprint(raised(KeyError("order 1"))), fingerprint(raised(ValueError("invoice 1")))}


def test_the_place_is_the_innermost_function_of_the_project_not_of_a_library():
    one, two = by_parsing("{"), by_parsing("{")
    assert fingerprint(one) == fingerprint(two)
    assert fingerprint(one) != fingerprint(by_parsing_elsewhere("{"))


def test_what_a_destination_answers_has_no_place():
    def elsewhere(error):
        return raised(error)

    for kind in (Undelivered, Refused):
        assert fingerprint(raised(kind("503 Busy"))) == fingerprint(elsewhere(kind("503 Busy")))
    assert fingerprint(raised(Permanent("no"))) == fingerprint(elsewhere(Permanent("no")))  # `raised` is innermost


def test_answers_are_known_by_their_status_whatever_their_body_says():
    def known(status, body, kind=Undelivered):
        return fingerprint(kind(f"The answer was {status}. {body}".rstrip(), status=status))

    assert known(500, "") == known(500, "ref aXbQz") == known(500, "<h1>oops</h1>\nref kLmNp")
    assert len({known(404, ""), known(500, ""), known(500, "", Refused), known(503, "", Throttled)}) == 4


def test_answers_of_one_status_that_begin_with_a_code_are_known_by_it_too():
    def known(code, message):
        return fingerprint(Refused(f"{code}: {message}", status=400))

    assert known("ValidationException", "field a") == known("ValidationException", "field b")
    assert known("ValidationException", "field a") != known("AccessDeniedException", "field a")


def test_an_error_without_a_traceback_or_a_message_has_one_too():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert len(fingerprint(ValueError("never raised"))) == 12
    assert len(fingerprint(raised(Silent()))) == 12


def test_it_is_the_same_in_every_process():
    assert fingerprint(ValueError("order 1")) == "27f2c7263361"


def test_the_line_that_says_what_happened():
    assert error_line(raised(ValueError("no luck"))) == "ValueError: no luck"
    assert error_line(raised(Undelivered("503 Busy"))) == "503 Busy"
    assert telling_line("Traceback (most recent call last):\n  in it\nValueError: no\n\n") == "ValueError: no"
    assert telling_line("  \n") == ""
    assert len(telling_line("x" * 10_000)) == 500


@pytest.mark.parametrize("kind", [Undelivered, Refused])
@pytest.mark.parametrize(
    "body", ["<html>\n</html>", 'Traceback (most recent call last):\n  File "a", line 1, in f\nNo: 1']
)
def test_of_an_answer_it_is_the_first_line_whatever_the_body_looks_like(kind, body):
    error = kind(f"The answer was 500. {body}", status=500)
    assert error_line(error) == telling_line(str(error), 500) == f"The answer was 500. {body.splitlines()[0]}"


def test_of_a_traceback_it_is_the_last_line_also_where_its_beginning_is_cut_off_or_somebody_else_wrote_it():
    frame = '  File "a.py", line 1, in f\n    g()\n'
    text = f"Traceback (most recent call last):\n{frame}{frame}ValueError: no"
    assert telling_line(text[50:]) == telling_line(text, 503) == error_line(Undelivered(text)) == "ValueError: no"


def test_a_group_has_an_id_of_its_own():
    one = group_id("order.paid", "to:a", "27f2c7263361")
    assert one == "6cfab3b418d6"
    others = {group_id("order.left", "to:a", "27f2c7263361"), group_id("order.paid", "to:b", "27f2c7263361")}
    assert len({one, *others, group_id("order.paid", "to:a", "worker-lost")}) == 4
