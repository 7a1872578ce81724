"""Where zone rules come from, and which release they are.

Python reads the operating system's copy first, and that copy is often releases behind. Here the PyPI package
`tzdata` is the source unless told otherwise, so that one `pip install` moves every instant on every machine,
and each stored instant can say which release derived it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from threading import Lock
from typing import IO
from zoneinfo import TZPATH, ZoneInfo

from duebox.when.errors import UnknownZone, WhenError

# Not places: files beside the zones in a system's copy, and zones that tick leap seconds.
_NOT_ZONES = ("posix", "right", "posixrules", "localtime", "Factory")


class ZoneDatabase:
    """One release of the world's zone rules."""

    def __init__(self, files: Traversable, release: str, source: str, names: frozenset[str]) -> None:
        self.release = release
        self.source = source
        self.names = names
        self._files = files
        self._zones: dict[str, ZoneInfo] = {}

    def __repr__(self) -> str:
        return f"<ZoneDatabase {self.release} from {self.source}>"

    def zone(self, name: str) -> ZoneInfo:
        """The rules of one zone; an unknown name is refused with the nearest ones."""
        found = self._zones.get(name) if isinstance(name, str) else None
        if found is None:
            with self._open(name) as file:
                found = self._zones.setdefault(name, ZoneInfo.from_file(file, key=name))
        return found

    def check(self, name: str) -> str:
        """The name itself, if the database knows it."""
        if not isinstance(name, str) or name not in self.names:
            raise UnknownZone(name, self.release, self._nearest(str(name)))
        return name

    def fingerprint(self, name: str) -> str:
        """Changes when, and only when, the zone's rules were published anew."""
        with self._open(name) as file:
            return hashlib.blake2b(file.read(), digest_size=8).hexdigest()

    def _open(self, name: str) -> IO[bytes]:
        return self._files.joinpath(*self.check(name).split("/")).open("rb")

    def _nearest(self, name: str) -> list[str]:
        folded = {known.casefold(): known for known in sorted(self.names)}
        wanted = re.sub(r"\s+", "_", name.strip().casefold())
        cities = {known.rsplit("/", 1)[-1].casefold(): known for known in sorted(self.names) if "/" in known}
        if exact := folded.get(wanted) or cities.get(wanted.rsplit("/", 1)[-1]):
            return [exact]
        return [folded[near] for near in get_close_matches(wanted, folded, n=3, cutoff=0.75)]


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
    """Compiled zone files in a folder: an older release, or one built in the house."""
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


_lock = Lock()
_current: ZoneDatabase | None = None


def current() -> ZoneDatabase:
    """The database every function here uses unless it is handed another one."""
    global _current
    if _current is None:
        with _lock:
            _current = _current or from_tzdata()
    return _current


def use(database: ZoneDatabase) -> None:
    """Make this the current database of the process; done once, at start."""
    global _current
    _current = database


@contextmanager
def using(database: ZoneDatabase) -> Iterator[ZoneDatabase]:
    """The same for the length of a block, in every thread: meant for tests and dry runs."""
    before = current()
    use(database)
    try:
        yield database
    finally:
        use(before)
