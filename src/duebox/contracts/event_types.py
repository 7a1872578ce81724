"""Event types, and the registry of those that are declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, dataclass_transform

from duebox.contracts import class_schemas, json_schema, naming, public
from duebox.contracts.validation import Validator, compiled, explain
from duebox.exceptions import InvalidContract, InvalidPayload

Data = dict[str, Any]
Upcast = Callable[[Data], Data]
C = TypeVar("C", bound=type)


@dataclass(frozen=True, kw_only=True)
class EventType:
    """One version of one type of event."""

    name: str
    version: int
    schema: Mapping[str, Any] = field(repr=False)
    aggregate: str = ""
    """The type of its aggregate; events must then be emitted with `about=` an aggregate of this type."""
    owner: str = ""
    purpose: str = ""
    public: frozenset[str] = frozenset()
    """The fields that the public event has."""
    twin_of: str = ""
    """For a public event, the name of the type that it is made from."""
    upcast: Upcast | None = field(default=None, repr=False)
    shape: type | None = None
    """The class that declares it."""
    origin: str = ""
    check_name: bool = True
    """Whether the system check `duebox.E040` checks the grammar of the name. Its spelling is always checked."""

    @property
    def is_from_file(self) -> bool:
        """Whether a schema file declares it. A class of the same type and version takes the place of the file."""
        return self.origin.endswith(".json")

    @cached_property
    def validator(self) -> Validator:
        return compiled(json_schema.closed(self.schema))

    @cached_property
    def reader(self) -> Validator:
        """The validator for readers: the schema as it is published, in which undeclared fields are no error."""
        return compiled(self.schema)

    @cached_property
    def fills_defaults(self) -> bool:
        """Whether the schema has a required field with a default, which stored data may lack."""
        return json_schema.has_defaults(self.schema)

    @cached_property
    def public_event(self) -> EventType | None:
        """The public event that is stored with it."""
        if not self.public:
            return None
        return EventType(
            name=f"public.{self.name}", version=self.version, schema=public.schema_of(self.schema, self.public),
            aggregate=self.aggregate, owner=self.owner, purpose=self.purpose, twin_of=self.name, origin=self.origin,
        )  # fmt: skip

    def project(self, data: Data) -> Data:
        """The data of the public event."""
        if not self.public_event:
            return {}
        whole = json_schema.fill_defaults(data, self.schema) if self.fills_defaults else data
        found: Data = public.projected(whole, self.public_event.schema)
        return found

    def check(self, data: Any, *, values: bool = True) -> None:
        """Raise `InvalidPayload` for data that the schema refuses, with the path and the value, or its type only."""
        self._check(self.validator, data, "send data that matches the schema, or declare a new version", values=values)

    def refuse_unreadable(self, data: Any) -> None:
        """Raise `InvalidPayload` for stored data that does not match what readers of this version expect."""
        repair = "it was stored under another schema; make the changed one a new version with upcast="
        self._check(self.reader, data, repair, values=False)

    def _check(self, validator: Validator, data: Any, repair: str, *, values: bool) -> None:
        if not validator.is_valid(data):
            error = next(validator.errors(data))
            fact = explain(error, self.schema, values=values)
            raise InvalidPayload(error.place, f"{fact} ({self.name} v{self.version})", repair)


_declared: dict[str, dict[int, EventType]] = {}
_of_class: dict[type, EventType] = {}
_misspelt: dict[str, dict[int, EventType]] = {}
"""Declared under a name that cannot be stored, so they cannot be emitted. A system check reports them."""
_watchers: list[Callable[[], None]] = []


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(
    name: str = "",
    *,
    version: int = 1,
    aggregate: str = "",
    owner: str = "",
    public: Collection[str] = (),
    upcast: Upcast | None = None,
    check_name: bool = True,
) -> Callable[[C], C]:
    """Declare an event type with a class. The annotations are the schema that every emitted event must match.

    A plain class becomes a frozen dataclass; pydantic models and msgspec Structs are used as they are. `public` names
    the fields of the public event. `upcast` turns the data of the version before into this one, so that handlers see
    the newest version only. The docstring is the purpose in the documents. `check_name=False` keeps `manage.py check`
    from complaining about the grammar of the name. A name that is not lower snake case with a dot is reported by
    `manage.py check`, and such an event cannot be emitted.
    """
    _refuse_wrong_name(name)

    def register(shape: C) -> C:
        ready = class_schemas.prepared(shape)
        purpose = " ".join((shape.__dict__.get("__doc__") or "").split())
        if purpose.startswith(f"{shape.__name__}("):
            purpose = ""  # the docstring that @dataclass writes
        declare(
            EventType(
                name=name, version=version, schema=class_schemas.schema_of(ready), aggregate=aggregate, owner=owner,
                purpose=purpose, public=frozenset(public), upcast=upcast, shape=ready,
                origin=f"{shape.__module__}.{shape.__qualname__}", check_name=check_name,
            )
        )  # fmt: skip
        return ready  # type: ignore[return-value]

    return register


def _refuse_wrong_name(name: object) -> None:
    place = f" above {name.__module__}.{name.__qualname__}" if isinstance(name, type) else "()"
    if isinstance(name, type) or name == "":
        raise InvalidContract(f"@duebox.event{place} does not name the event type; write @duebox.event('order.paid').")
    if not isinstance(name, str):
        raise InvalidContract(f"{name!r} is not the name of an event type; write it as text, as in 'order.paid'.")


def declare(new: EventType) -> None:
    """Add a type to the registry, or raise `InvalidContract`. Misspelt ones have a separate registry."""
    is_misspelt = naming.misspelling(new.name) is not None
    registry = _misspelt if is_misspelt else _declared
    if not is_misspelt:
        naming.refuse_reserved(new.name)
    if isinstance(new.version, bool) or not isinstance(new.version, int) or not 1 <= new.version <= 32_767:
        raise InvalidContract(f"version={new.version!r} of {new.name!r} must be a whole number from 1 to 32767.")
    if new.schema.get("type") != "object":
        raise InvalidContract(f"The schema of {new.name} v{new.version} must be of type 'object'.")
    try:
        for each in (new, new.public_event):
            assert each is None or each.validator  # compiles the schema
    except InvalidContract as error:
        raise InvalidContract(f"{new.name} v{new.version}: {error}") from None
    old = registry.get(new.name, {}).get(new.version)
    replaces_file = old is not None and old.is_from_file and new.shape is not None
    if old is not None and old.origin != new.origin and not replaces_file:
        raise InvalidContract(
            f"{new.name} v{new.version} is declared by {old.origin} and by {new.origin}; keep one of them, or give the "
            f"other version={new.version + 1}."
        )
    registry.setdefault(new.name, {})[new.version] = new
    if old is not None and old.public_event:
        registry.get(old.public_event.name, {}).pop(new.version, None)  # the new declaration may have none
    if new.public_event and not is_misspelt:
        registry.setdefault(new.public_event.name, {})[new.version] = new.public_event
    if new.shape is not None:
        _of_class[new.shape] = new
    _notify()


def forget(name: str) -> None:
    """Remove a type from the registry; for tests and interactive work."""
    for each in (*_declared.pop(name, {}).values(), *_misspelt.pop(name, {}).values()):
        _of_class.pop(each.shape, None)  # type: ignore[arg-type]
    _declared.pop(f"public.{name}", None)
    _notify()


def declared() -> tuple[EventType, ...]:
    """Every declared version, public events included, ordered by name and version."""
    return tuple(_declared[name][version] for name in sorted(_declared) for version in sorted(_declared[name]))


def by_name(kinds: Iterable[EventType]) -> dict[str, list[EventType]]:
    """The versions of each name, the oldest first."""
    found: dict[str, list[EventType]] = {}
    for kind in sorted(kinds, key=lambda each: (each.name, each.version)):
        found.setdefault(kind.name, []).append(kind)
    return found


def misspelt() -> tuple[EventType, ...]:
    """Types that were declared under a name that cannot be stored; they are not in `declared()`."""
    return tuple(each for versions in _misspelt.values() for each in versions.values())


def is_misspelt(name: str) -> bool:
    """Whether a type was declared under this name, and the name cannot be stored."""
    return name in _misspelt


def versions_of(name: str) -> Mapping[int, EventType]:
    return _declared.get(name, {})


def latest(name: str) -> EventType | None:
    versions = _declared.get(name)
    return versions[max(versions)] if versions else None


def type_of(shape: type) -> EventType | None:
    """The type that a class declares."""
    return _of_class.get(shape)


def watch(changed: Callable[[], None]) -> None:
    """Call this function whenever the registry changes."""
    _watchers.append(changed)


def _notify() -> None:
    for changed in _watchers:
        changed()
