"""Compare two schemas of one event type, or two catalogues of schemas. Each break is proven by an event.

The search walks both schemas at the same time. Where they say the same, it tries few values; where they differ, it
tries the values that the keywords of both sides suggest, one place at a time, with the rest of the event minimal.

The schema of a published version must not change; a different schema is a new version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal

from duebox.contracts.compat import report
from duebox.contracts.compat.candidates import Alternative, Arrays, Objects, alternatives, numbers, probes, strings
from duebox.contracts.compat.report import Break, Change, Direction, Verdict
from duebox.contracts.compat.schema import ABSENT, Difference, Document, Place, differences, same
from duebox.contracts.json_schema import allowed_types, canonical, closed, fill_defaults, types_of, without_filled
from duebox.contracts.validation import compiled
from duebox.exceptions import InvalidContract

# Limits of the search: values in all, whole events, values per place, values tried for a smallest one, refused and
# accepted values that a place offers, values of each type where both sides say the same, explained witnesses.
_BUDGET = 15_000
_MAX_EVENTS = 10_000
_MAX_TRIED = 2_000
_MAX_SMALL = 500
_MAX_REFUSED = 150
_MAX_ACCEPTED = 25
_MAX_OF_TYPE = 6
_MAX_EXPLAINED = 400


class Search:
    """Events that a writer may send and a reader may refuse."""

    def __init__(self, writer: Document, reader: Document) -> None:
        self.writer, self.reader = writer, reader
        self._values: dict[object, list[Any]] = {}
        self._smallest: dict[object, list[Any]] = {}
        self._active: set[object] = set()
        self._budget = _BUDGET
        self._recursions = 0
        self._failures: Counter[object] = Counter()

    def events(self) -> Iterator[Any]:
        """Whole events to try. Some may not be valid for the writer, and some are repeated."""
        place = Place((self.writer.root,), (self.reader.root,))
        self._active.add(place.key)
        return islice(self._tried(place, differs=True), _MAX_EVENTS)

    def accepts(self, place: Place, value: Any) -> bool:
        return self.writer.accepts(place.writer, value)

    def values(self, place: Place) -> list[Any]:
        """Values for a place: those that the reader refuses there, and some that it accepts; small ones first."""
        key = place.key
        if key not in self._values:
            if key in self._active or self._budget <= 0:
                return self.smallest(place)  # a place inside of itself need not be varied again
            self._active.add(key)
            is_same = len(place.writer) == len(place.reader) and all(
                same(self.writer, own, self.reader, other)
                for own, other in zip(place.writer, place.reader, strict=True)
            )
            tried = self._counted(islice(self._tried(place, differs=not is_same), _MAX_TRIED))
            possible = {canonical(each): each for each in tried if self.accepts(place, each)}
            refused = [each for each in possible.values() if not self.reader.accepts(place.reader, each)]
            accepted = [each for each in possible.values() if self.reader.accepts(place.reader, each)]
            self._values[key] = [*sorted(refused, key=size)[:_MAX_REFUSED], *accepted[:_MAX_ACCEPTED]]
            self._active.discard(key)
        return self._values[key]

    def smallest(self, place: Place) -> list[Any]:
        """One small value for a place, if there is any: one that both sides accept, otherwise the writer alone."""
        key = ("smallest", place.key)
        if key in self._smallest:
            return self._smallest[key]
        if key in self._active:
            self._recursions += 1
            return []
        self._active.add(key)
        before = self._recursions
        # The minimum may not be valid, as for a variant that only its optional properties distinguish.
        found = self._best(place, self._small(place)) or self._best(
            place, self._tried(Place(place.writer, ()), differs=True)
        )
        self._active.discard(key)
        self._failures[key] += not found
        # A failure may be due to the starting place, inside of a schema that contains itself: try up to three times.
        if found or self._recursions == before or self._failures[key] == 3:
            self._smallest[key] = found
        return found

    def _best(self, place: Place, tried: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        for value in self._counted(islice(tried, _MAX_SMALL)):
            if self.accepts(place, value):
                if self.reader.accepts(place.reader, value):
                    return [value]
                found = found or [value]
        return found

    def _counted(self, tried: Iterable[Any]) -> Iterator[Any]:
        for value in tried:
            self._budget -= 1
            yield value

    def _small(self, place: Place) -> Iterator[Any]:
        for own, probe in self._pairs(place):
            yield from _scalars(own, probe)
            for kind in _containers(own):
                yield from kind(own, probe, self).smallest()

    def _tried(self, place: Place, *, differs: bool) -> Iterator[Any]:
        for own, probe in self._pairs(place if differs else Place(place.writer, ())):
            scalars = _scalars(own, probe)
            yield from scalars if differs else _few_of_each_type(scalars)
            for kind in _containers(own):
                values = kind(own, probe, self)
                yield from values.all() if differs else values.few()

    def _pairs(self, place: Place) -> Iterator[tuple[Alternative, Alternative]]:
        found = probes(place.reader, self.reader)
        return ((own, probe) for own in alternatives(place.writer, self.writer) for probe in found)


def _containers(schemas: Alternative) -> list[type[Arrays] | type[Objects]]:
    types = allowed_types(schemas)
    return [kind for name, kind in (("array", Arrays), ("object", Objects)) if name in types]


def _scalars(own: Alternative, probe: Alternative) -> Iterator[Any]:
    both = (*own, *probe)
    for schema in both:
        yield from schema.get("enum", ())
        if "const" in schema:
            yield schema["const"]
    if any("enum" in schema or "const" in schema for schema in own):
        return
    types = allowed_types(own)
    if "string" in types:
        yield from strings(both)
    if "integer" in types:
        yield from numbers(both)
    if "boolean" in types:
        yield from (True, False)
    if "null" in types:
        yield None


def _few_of_each_type(values: Iterable[Any]) -> Iterator[Any]:
    seen: Counter[tuple[str, ...]] = Counter()
    for value in values:
        seen[types_of(value)] += 1
        if seen[types_of(value)] <= _MAX_OF_TYPE:
            yield value


def size(value: Any) -> int:
    """How long a value is for a reader; an empty text counts as a short one."""
    text = canonical(value)
    return len(text) + 2 * text.count('""')


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], *, formats: bool = False, defaults: bool = False
) -> Verdict:
    """Whether `new` may replace `old`. Writers are strict; readers use the schema as it is published.

    A break has a witness: an event that the writer's schema allows and the reader's refuses. Invalid schemas raise
    `InvalidContract`. JSON Schema leaves some behaviour of readers open: with `formats` they assert formats, with
    `defaults` the new one fills in required fields that have a default. Duebox does both.
    """
    before, after = Document(dict(old), formats=formats), Document(dict(new), formats=formats)
    if canonical(old) == canonical(new):
        return Verdict()
    found = differences(before, after, defaults=defaults)
    # Where defaults are filled in, old events may lack such fields: they were stored before the fields were added.
    stored = without_filled(dict(old)) if defaults else before.root
    return Verdict(
        backward=tuple(_breaks("backward", Document(stored), after, defaults=defaults)),
        forward=tuple(_breaks("forward", Document(after.root), before)),
        changes=tuple(_change(each) for each in found if each.kind in ("removed", "changed")),
        warnings=tuple(_change(each) for each in found if each.kind == "annotation" and _matters(each)),
    )


def _breaks(direction: Direction, writer: Document, reader: Document, *, defaults: bool = False) -> Iterator[Break]:
    """One break for each place and keyword that refuses an event, with the smallest event that shows it."""

    def as_read(event: Any) -> Any:
        return fill_defaults(event, reader.root) if defaults else event

    may_send, accepts = compiled(closed(writer.root)), compiled(reader.root, formats=reader.formats)
    witnesses = {
        canonical(event): event
        for event in Search(writer, reader).events()
        if may_send.is_valid(event) and not accepts.is_valid(as_read(event))
    }
    known = set()
    for event in sorted(witnesses.values(), key=size)[:_MAX_EXPLAINED]:
        for violation in reader.violations(as_read(event)):
            path = report.path_of(violation.path)
            if (path, violation.keyword) not in known:
                known.add((path, violation.keyword))
                yield Break(direction, path, violation.keyword, report.why(direction, violation, writer), event)


def _change(difference: Difference) -> Change:
    return Change(difference.path, difference.keyword, report.what(difference))


def _matters(difference: Difference) -> bool:
    """Whether a changed annotation may mean something else. An added description only explains."""
    if difference.keyword == "description":
        return difference.old is not ABSENT
    if difference.keyword == "x-known-values":
        new = [] if difference.new is ABSENT else difference.new
        return difference.old is not ABSENT and any(each not in new for each in difference.old)
    return True


Key = tuple[str, int]
Catalogue = Mapping[Key, Mapping[str, Any]]
Mode = Literal["backward", "forward", "full"]

MODES: tuple[Mode, ...] = ("backward", "forward", "full")
PUBLIC = "public."
_MILDER_REPAIRS = {
    "required": "or leave it optional",
    "properties": "or keep it, marked deprecated",
    "format": "or put it into the description",
    "enum": "or take an open text with `x-known-values`",
    "additionalProperties": "or leave `additionalProperties` as it was; writers are strict anyway",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of one schema, or something to review."""

    type: str
    version: int
    breaks: bool
    """Whether the check must fail. Otherwise it should be reviewed."""
    path: str = ""
    direction: str = ""
    """`backward`, `forward`, or empty when no event is refused."""
    what: str
    witness: Any = None
    """An event that the writer's schema allows and the reader's refuses."""
    repair: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def findings(old: Catalogue, new: Catalogue, *, mode: Mode = "full") -> list[Finding]:
    """Problems of `new` for existing events and consumers of `old`."""
    found = [each for key in sorted(old) for each in _findings(key, old[key], new, mode)]
    for type, version in sorted(new.keys() - old.keys()):
        before = max((each for name, each in new if name == type and each < version), default=0)
        if version != before + 1:  # upcasters lead from each version to the next
            gap = f"version {version} follows version {before}" if before else f"the first version is {version}"
            repair = f"make it version {before + 1}"
            found.append(Finding(type=type, version=version, breaks=False, what=gap, repair=repair))
    return found


def _findings(key: Key, old: Mapping[str, Any], catalogue: Catalogue, mode: Mode) -> Iterator[Finding]:
    type, version = key
    finding = partial(Finding, type=type, version=version)
    new = catalogue.get(key)
    if new is None:
        yield finding(
            breaks=True,
            what="the version was removed; stored events of it may still become due, and nothing could read them",
            repair=f"restore {type}.v{version}.json, and mark it deprecated if nothing should emit it any more",
        )
        return
    if canonical(old) == canonical(new):
        return
    for schema, repair in ((new, "repair it"), (old, "nothing: no event can be valid under the previous schema")):
        try:
            compiled(closed(schema))
        except InvalidContract as error:
            yield finding(breaks=schema is new, what=str(error), repair=repair)
            return
    is_public = type.startswith(PUBLIC)  # readers of public events are external, and do not fill in defaults
    verdict = compare(old, new, formats=True, defaults=not is_public)
    following = max(each for name, each in catalogue if name == type) + 1
    way_out = f"leave version {version} as it was; make this version {following} and give it an upcaster"
    for each in _that_count(verdict, "full" if is_public else mode):
        milder = _MILDER_REPAIRS.get(each.keyword)
        proof: dict[str, Any] = {}
        if isinstance(each, Break):
            proof = {"direction": each.direction, "witness": each.witness}
            if each.keyword == "required" and each.direction == "backward" and not is_public:
                milder = "or leave it optional or give it a default"
        repair = f"{way_out}, {milder}" if milder else way_out
        yield finding(breaks=True, path=each.path, what=each.what, repair=repair, **proof)
    for change in verdict.warnings:
        repair = "no machine can see whether it means something else now; if it does, take a new property or version"
        yield finding(breaks=False, path=change.path, what=change.what, repair=repair)


def _that_count(verdict: Verdict, mode: Mode) -> list[Break | Change]:
    """The failures in a mode: the breaks, and with "full" also every change that no break explains."""
    if mode != "full":
        return [*(verdict.backward if mode == "backward" else verdict.forward)]
    breaks = [*verdict.backward, *verdict.forward]
    known = {(each.path, each.keyword) for each in breaks}
    known |= {(path, "properties") for path, keyword in known if keyword == "required"}  # removed, and was required
    return [*breaks, *(each for each in verdict.changes if (each.path, each.keyword) not in known)]
