"""Pages on disk: what is missing, what is out of date, and what is left over of types that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from duebox.contracts.documents.page import MARK
from duebox.exceptions import InvalidContract

_PAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\.md")


class Report(NamedTuple):
    """How a folder differs from what it should hold; paths are relative to it."""

    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    """Written for types that are gone, and nobody's own work."""
    foreign: tuple[str, ...] = ()
    """Named like the page of a type, but written by somebody: they are left alone."""
    unchanged: int = 0

    @property
    def in_step(self) -> bool:
        return not (self.missing or self.changed or self.stale)


class Folder:
    """A folder with these pages in it, and in those inside of it that are ours too."""

    def __init__(self, place: Path, pages: Mapping[str, str], *, inner: Sequence[str] = ()) -> None:
        self.place, self.pages, self.folders = place, pages, ("", *inner)

    def compared(self) -> Report:
        missing = [name for name in self.pages if not (self.place / name).exists()]
        there = {name: _read(self.place / name) for name in self.pages if name not in missing}
        changed = [name for name, text in there.items() if text != self.pages[name]]
        left = {name: MARK in _read(self.place / name) for name in self._left_over()}
        stale = [name for name, is_ours in left.items() if is_ours]
        foreign = [name for name, is_ours in left.items() if not is_ours and _PAGE.fullmatch(Path(name).name)]
        return Report(tuple(missing), tuple(changed), tuple(stale), tuple(foreign), len(there) - len(changed))

    def write(self) -> Report:
        """Bring it in step. A page that somebody wrote by hand is never written over, nor removed."""
        report = self.compared()
        for name in report.changed:
            if MARK not in _read(self.place / name):
                raise InvalidContract(
                    f"{self.place / name} was not written by `duebox events docs`; move it away, or write to another "
                    "folder."
                )
        for name in (*report.missing, *report.changed):
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            (self.place / name).write_text(self.pages[name], encoding="utf-8")
        for name in report.stale:
            (self.place / name).unlink()
        return report

    def _left_over(self) -> Iterator[str]:
        """Pages that nothing asks for."""
        for folder in self.folders:
            for path in sorted((self.place / folder).glob("*.md")):
                name = path.relative_to(self.place).as_posix()
                if name not in self.pages:
                    yield name


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
