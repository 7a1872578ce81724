"""Documents of the event types, in Markdown: a page for each, and one that leads to them.

Public events have pages of their own, for others: nothing in them tells of the inside.
"""

from __future__ import annotations

from collections.abc import Iterable

from duebox.contracts.documents.folder import Folder, Report
from duebox.contracts.documents.index import index, public_index
from duebox.contracts.documents.page import file_name, page
from duebox.contracts.types import EventType

__all__ = ["Folder", "Report", "pages", "public_pages"]


def pages(kinds: Iterable[EventType]) -> dict[str, str]:
    """All pages by their place in a folder; those of public events are in `public/`."""
    kinds = tuple(kinds)
    own, others = _by_name(kinds, public=False), _by_name(kinds, public=True)
    found = {"index.md": index(own, others)}
    found |= {file_name(versions[-1]): page(versions) for versions in own.values()}
    return found | ({f"public/{place}": text for place, text in public_pages(kinds).items()} if others else {})


def public_pages(kinds: Iterable[EventType]) -> dict[str, str]:
    """The pages of public events alone, for a folder of their own."""
    types = _by_name(kinds, public=True)
    return {"index.md": public_index(types)} | {file_name(each[-1]): page(each) for each in types.values()}


def _by_name(kinds: Iterable[EventType], *, public: bool) -> dict[str, list[EventType]]:
    found: dict[str, list[EventType]] = {}
    for kind in sorted(kinds, key=lambda each: (each.name, each.version)):
        if bool(kind.twin_of) is public:
            found.setdefault(kind.name, []).append(kind)
    return found
