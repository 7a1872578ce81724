"""Strings that a pattern takes, and another does not."""

from __future__ import annotations

import re

import pytest

from duebox.contracts.compat.candidates import matching, strings
from duebox.contracts.validation import FORMATS, compiled

PATTERNS = [
    "^a+$", "b", "^[A-Z]{2}[0-9]{3,5}$", "^(?:red|green)$", r"^\d{4}-\d{2}$", r"^[+-]?\d+(\.\d+)?$", "^[^a-z]*$",
    r"^\S+@\S+$", "^(?=.*[0-9])[a-z0-9]{3}$", "^(?!admin).*$", "^$", "", r"^\w+\s\w+$", "a|^b$", "^x{0,3}y?$",
    "^(ab){2,}$", "^[0-9a-f]{64}$",
]  # fmt: skip


def takes(pattern, text):
    return compiled({"pattern": pattern}).is_valid(text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_gets_a_string_that_it_takes(pattern):
    assert any(takes(pattern, each) for each in matching((pattern,)))


@pytest.mark.parametrize("pattern", [each for each in PATTERNS if each])
def test_a_pattern_gets_a_string_that_it_does_not_take(pattern):
    assert any(not takes(pattern, each) for each in matching((pattern,)))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("^[a-z]+$", "^[a-m]+$"),
        ("^[a-z]{2,4}$", "^[a-z]{2,3}$"),
        ("^(red|green|blue)$", "^(red|green)$"),
        ("^[A-Z]{3}$", "^(EUR|USD)$"),
        (r"^\+?[0-9]+$", r"^\+[0-9]+$"),
        ("^.*$", "^[ -~]*$"),
        ("^[0-9a-f]{32}$", "^[0-9a-f]{12}4[0-9a-f]{19}$"),
    ],
)
def test_a_string_is_found_that_one_pattern_takes_and_the_other_does_not(wide, narrow):
    assert any(takes(wide, each) and not takes(narrow, each) for each in matching((wide, narrow)))


def test_a_string_is_found_for_each_length():
    found = matching(("^[a-z]+$",), (3, 200))
    assert {3, 200} <= {len(each) for each in found if takes("^[a-z]+$", each)}


def test_the_dialect_of_browsers_is_understood():
    assert "aa" in matching((r"^(?<letters>\p{L}{2})$",))
    assert any(re.fullmatch("[A-Z][a-z]", each) for each in matching((r"^[\p{Lu}][\p{Ll}]$",)))


@pytest.mark.parametrize("pattern", [r"^(a)\1$", r"\bword\b", "(?<=a)b", "^((a+)+)+$", "(((((a?){9}){9}){9}){9}){9}"])
def test_patterns_beyond_regular_ones_come_to_an_end(pattern):
    assert len(matching((pattern,))) < 100


def test_a_pattern_that_python_cannot_read_gets_guesses():
    assert matching((r"\p{Script=Greek}",)) == ()
    assert len(list(strings([{"pattern": r"\p{Script=Greek}"}]))) > 10


def test_a_format_gets_a_text_of_that_form():
    assert next(strings([{"format": "date-time"}])) == "2026-01-31T09:00:00Z"


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_gets_two_texts_of_that_form_so_that_a_set_can_have_both(name):
    takes = compiled({"format": name}).is_valid
    assert [takes(text) for text in strings([{"format": name}])][:2] == [True, True]
