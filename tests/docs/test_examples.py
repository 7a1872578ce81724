"""Every block marked python in the README and the documentation runs, page by page, on the real database.

It runs on the day it was written, so that a date in an example does not grow old. The README and every guide that
declares event types run with the default settings. Where declarations would be noise, what nobody declared may be
emitted.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import transaction

from duebox.events import subscribers
from duebox.testing import travel
from tests.docs.pages import REFERENCE, Block, blocks, name_of, pages

SET_APART = ("not-run", "file", "append")
WRITTEN = datetime(2026, 11, 16, 8, tzinfo=UTC)


def runnable(page) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and block.mark not in SET_APART]


def settings_of(page) -> dict[str, str]:
    declares = REFERENCE not in page.parents and any("@duebox.event(" in block.text for block in runnable(page))
    return {} if declares or page.name == "README.md" else {"UNDECLARED": "allow"}


@pytest.mark.django_db(databases=["default", "other"])
@pytest.mark.parametrize("page", [page for page in pages() if runnable(page)], ids=name_of)
def test_the_examples_of_a_page_run_in_order(page, on, declare, tables, declared, settings):
    settings.DUEBOX = settings_of(page)
    namespace, known = {"__name__": "shop.handlers"}, set(subscribers.by_name())
    for block in runnable(page):
        if block.mark == "afresh":
            forget_handlers(but=known)
        # Padded, so that a failure names the line of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
        with travel(WRITTEN):
            exec(code, namespace)
    for name in [name for name in namespace if name.startswith("test_")]:
        with transaction.atomic(), travel(WRITTEN):
            namespace[name]()
            transaction.set_rollback(True)


def forget_handlers(*, but):
    """A page may show a handler as it was before, and as it is afterwards."""
    for name in [name for name in subscribers.by_name() if name not in but]:
        if name in subscribers.by_name():
            subscribers.remove(subscribers.by_name()[name].name)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_block_that_is_not_run_says_why(page):
    silent = [block.line for block in blocks(page) if block.mark == "not-run" and not block.rest]
    assert silent == []
