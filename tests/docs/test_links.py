from __future__ import annotations

import re

import pytest

from tests.docs.pages import anchors, links, name_of, pages, prose


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_internal_links_lead_to_a_page_and_a_heading(page):
    broken = [target for target in links(page) if "://" not in target and not _resolves(page, target)]
    assert broken == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_begins_with_its_only_title(page):
    assert page.read_text().startswith("# ")
    assert len(re.findall("^# ", prose(page), flags=re.MULTILINE)) == 1


def _resolves(page, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    return there.exists() and (not anchor or anchor in anchors(there))
