"""The time zone database: its source, its release, its clock changes, and where two databases disagree.

Python reads the operating system's copy first, which is often releases behind. Here the PyPI package `tzdata` is the
default source, so that one `pip install` updates every machine, and each stored instant can name its release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from threading import Lock
from zoneinfo import TZPATH, ZoneInfo

from duebox.when.errors import UnknownZone, WhenError
from duebox.when.times import instant

__all__ = ["ZoneDatabase", "current", "from_folder", "from_system", "from_tzdata", "name_of", "use", "using"]

# Other files of a system's copy, and zones with leap seconds.
_NOT_ZONES = ("posix", "right", "posixrules", "localtime", "Factory")


class ZoneDatabase:
    """One release of the world's zone rules."""

    def __init__(self, files: Traversable, release: str, source: str, names: frozenset[str]) -> None:
        self.release = release
        self.source = source
        self.names = names
        self._files = files
        self._zones: dict[str, tuple[ZoneInfo, str]] = {}

    def __repr__(self) -> str:
        return f"<ZoneDatabase {self.release} from {self.source}>"

    def zone(self, name: str) -> ZoneInfo:
        """The rules of one zone; an unknown name is refused with the nearest ones."""
        return self._read(name)[0]

    def check(self, name: str) -> str:
        """The name if it is in the database; otherwise raises `UnknownZone`."""
        if not isinstance(name, str) or name not in self.names:
            raise UnknownZone(name, self.release, self._nearest(str(name)))
        return name

    def spelled(self, name: str) -> str:
        """The name as the database spells it, where only case or spaces differ; otherwise unchanged."""
        return name if name in self.names else self._folded().get(_fold(name), name)

    def fingerprint(self, name: str) -> str:
        """A fingerprint that changes if and only if the file of the zone changes."""
        return self._read(name)[1]

    def _read(self, name: str) -> tuple[ZoneInfo, str]:
        """The rules and their fingerprint, read at once: the file may be replaced while the process runs."""
        found = self._zones.get(name) if isinstance(name, str) else None
        if found is None:
            content = self._files.joinpath(*self.check(name).split("/")).read_bytes()
            rules = ZoneInfo.from_file(BytesIO(content), key=name)
            found = self._zones.setdefault(name, (rules, hashlib.blake2b(content, digest_size=8).hexdigest()))
        return found

    def _nearest(self, name: str) -> list[str]:
        folded, wanted = self._folded(), _fold(name)
        cities = {known.rsplit("/", 1)[-1].casefold(): known for known in sorted(self.names) if "/" in known}
        if exact := folded.get(wanted) or cities.get(wanted.rsplit("/", 1)[-1]):
            return [exact]
        return [folded[near] for near in get_close_matches(wanted, folded, n=3, cutoff=0.75)]

    def _folded(self) -> dict[str, str]:
        return {_fold(known): known for known in sorted(self.names)}


def _fold(name: str) -> str:
    return re.sub(r"\s+", "_", name.strip().casefold())


def from_tzdata() -> ZoneDatabase:
    """The release in the installed PyPI package `tzdata`."""
    package = import_module("tzdata")
    root = resources.files(package)
    names = frozenset(root.joinpath("zones").read_text().split()) - {"Factory"}
    return ZoneDatabase(root.joinpath("zoneinfo"), package.IANA_VERSION, "tzdata", names)


def from_system() -> ZoneDatabase:
    """The operating system's copy; its release is unknown on systems that do not ship `tzdata.zi`."""
    for folder in map(Path, TZPATH):
        if folder.joinpath("UTC").is_file():
            return from_folder(folder, source="system")
    raise WhenError(f"This system has no zone files in {', '.join(TZPATH) or 'any place'}; use the tzdata package.")


def from_folder(folder: Path, *, release: str | None = None, source: str | None = None) -> ZoneDatabase:
    """Compiled zone files in a folder, such as an older release."""
    names = frozenset(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.relative_to(folder).parts[0] not in _NOT_ZONES and _is_zone(path)
    )
    return ZoneDatabase(folder, release or _release_in(folder), source or folder.name, names)


def _is_zone(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"TZif"


def _release_in(folder: Path) -> str:
    listing = folder / "tzdata.zi"
    if not listing.is_file():
        return "unknown"
    with listing.open() as file:
        return file.readline().removeprefix("# version").strip() or "unknown"


def name_of(zone: str | ZoneInfo) -> str:
    """The name of a zone, passed as name or `ZoneInfo`, if it is in the current database."""
    return current().check(zone.key if isinstance(zone, ZoneInfo) else zone)


_lock = Lock()
_current: ZoneDatabase | None = None


def current() -> ZoneDatabase:
    """The database that all functions use unless they get another one."""
    global _current
    if _current is None:
        with _lock:
            _current = _current or from_tzdata()
    return _current


def use(database: ZoneDatabase) -> None:
    """Make this the current database of the process."""
    global _current
    _current = database


@contextmanager
def using(database: ZoneDatabase) -> Iterator[ZoneDatabase]:
    """Use a database inside of a block, in all threads; for tests and dry runs."""
    before = current()
    use(database)
    try:
        yield database
    finally:
        use(before)


# Changes that are undone within this time are not found; the shortest on record, around Ramadan, last four weeks.
_STRIDE = timedelta(days=10)
_A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """An instant at which clocks jump, and the UTC offset on either side."""

    instant: datetime
    before: timedelta
    after: timedelta


def clock_changes(
    zone: str, start: datetime, end: datetime, *, database: ZoneDatabase | None = None
) -> list[ClockChange]:
    """The clock changes of a zone after an instant and up to another."""
    rules = (database or current()).zone(zone)
    begin, last = instant(start, "The start"), instant(end, "The end")
    strides = max(0, (last - begin) // _STRIDE) + 1
    marks = [begin + step * _STRIDE for step in range(strides)] + [last]
    spans = [(low, high) for low, high in pairwise(marks) if _offset(rules, low) != _offset(rules, high)]
    return [_change_within(rules, low, high) for low, high in spans]


def disagreements(one: ZoneDatabase, other: ZoneDatabase, start: datetime, end: datetime) -> list[str]:
    """The zones that are in both databases and whose local times differ between two instants."""

    def clock(database: ZoneDatabase, name: str) -> tuple[timedelta, list[ClockChange]]:
        return _offset(database.zone(name), start), clock_changes(name, start, end, database=database)

    return sorted(name for name in one.names & other.names if clock(one, name) != clock(other, name))


def _change_within(rules: ZoneInfo, low: datetime, high: datetime) -> ClockChange:
    before, after = _offset(rules, low), _offset(rules, high)
    while high - low > _A_SECOND:
        middle = low + (high - low) // 2
        low, high = (middle, high) if _offset(rules, middle) == before else (low, middle)
    return ClockChange(high.replace(microsecond=0), before, after)


def _offset(rules: ZoneInfo, moment: datetime) -> timedelta:
    found = moment.astimezone(rules).utcoffset()
    assert found is not None
    return found
