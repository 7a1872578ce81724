"""Event types: what is declared, and the register of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, dataclass_transform

from duebox.contracts import defaults, naming, public, shapes
from duebox.contracts.refusals import said
from duebox.contracts.strict import closed
from duebox.contracts.validation import Validator, compiled
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
    """The kind of thing it is about; events of this type are then emitted with `about=` such a thing."""
    owner: str = ""
    purpose: str = ""
    public: frozenset[str] = frozenset()
    """The fields that others may see, in the public twin of the event."""
    twin_of: str = ""
    upcast: Upcast | None = field(default=None, repr=False)
    shape: type | None = None
    origin: str = ""
    check_name: bool = True
    """Whether the system check `duebox.E040` looks at the grammar of the name."""

    @cached_property
    def validator(self) -> Validator:
        return compiled(closed(self.schema))

    @cached_property
    def reader(self) -> Validator:
        """What readers hold data to: the schema as it is published, in which undeclared fields are no error."""
        return compiled(self.schema)

    @cached_property
    def fills_defaults(self) -> bool:
        """Whether the schema has a required field with a default, which stored data may lack."""
        return defaults.has_any(self.schema)

    @cached_property
    def twin(self) -> EventType | None:
        """The public event that goes out with it."""
        if not self.public:
            return None
        return EventType(
            name=f"public.{self.name}", version=self.version, schema=public.schema_of(self.schema, self.public),
            aggregate=self.aggregate, owner=self.owner, purpose=self.purpose, twin_of=self.name, origin=self.origin,
        )  # fmt: skip

    def project(self, data: Data) -> Data:
        """What of the data the public twin carries."""
        if not self.twin:
            return {}
        whole = defaults.filled(data, self.schema) if self.fills_defaults else data
        found: Data = public.projected(whole, self.twin.schema)
        return found

    def check(self, data: Any, *, values: bool = True) -> None:
        """Refuse data that is not what the schema promises, with the path and the value, or with its kind only."""
        if not self.validator.is_valid(data):
            repair = "send what its schema declares, or declare a new version"
            raise self._refusal(self.validator, data, repair, values=values)

    def refuse_unreadable(self, data: Any) -> None:
        """Refuse stored data that is not what readers of this version expect."""
        if not self.reader.is_valid(data):
            repair = "it was stored under another schema; make the changed one a new version with upcast="
            raise self._refusal(self.reader, data, repair, values=False)

    def _refusal(self, validator: Validator, data: Any, repair: str, *, values: bool) -> InvalidPayload:
        wrong = validator.first_error(data)
        assert wrong is not None
        fact = said(wrong, self.schema, values=values)
        return InvalidPayload(wrong.place, f"{fact} ({self.name} v{self.version})", repair)


_declared: dict[str, dict[int, EventType]] = {}
_of_shape: dict[type, EventType] = {}
_watchers: list[Callable[[], None]] = []


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(
    name: str,
    *,
    version: int = 1,
    aggregate: str = "",
    owner: str = "",
    public: Collection[str] = (),
    upcast: Upcast | None = None,
    check_name: bool = True,
) -> Callable[[C], C]:
    """Declare a type of event by a class: its annotations are the schema that every emission is held to.

    A plain class becomes a frozen dataclass; pydantic models and msgspec Structs are taken as they are. `public` names
    the fields of the `public.` twin that others may see. `upcast` turns the data of the version before into this one,
    so that handlers see the newest version only. The docstring is the purpose in the documents. `check_name=False`
    keeps `manage.py check` from complaining about the grammar of the name.
    """

    _refuse_what_is_no_name(name)

    def register(shape: C) -> C:
        ready = shapes.prepared(shape)
        declare(
            EventType(
                name=name, version=version, schema=shapes.schema_of(ready), aggregate=aggregate, owner=owner,
                purpose=_purpose(shape), public=frozenset(public), upcast=upcast, shape=ready,
                origin=f"{shape.__module__}.{shape.__qualname__}", check_name=check_name,
            )
        )  # fmt: skip
        return ready  # type: ignore[return-value]

    return register


def _refuse_what_is_no_name(name: object) -> None:
    if isinstance(name, type):
        raise InvalidContract(
            f"@duebox.event above {name.__module__}.{name.__qualname__} does not say which event it is; "
            "write @duebox.event('order.paid')."
        )
    if not isinstance(name, str):
        raise InvalidContract(f"{name!r} is no name of an event; write it as text, as in 'order.paid'.")


def declare(new: EventType) -> None:
    """Enter a type into the register, or say what is wrong with it."""
    naming.refuse_spelling(new.name)
    if isinstance(new.version, bool) or not isinstance(new.version, int) or not 1 <= new.version <= 32_767:
        raise InvalidContract(f"version={new.version!r} of {new.name!r} must be a whole number from 1 to 32767.")
    _refuse_wrong_schema(new)
    old = _declared.get(new.name, {}).get(new.version)
    if old is not None and old.origin != new.origin:
        raise InvalidContract(
            f"{new.name} v{new.version} is declared by {old.origin} and by {new.origin}; keep one of them, or give the "
            f"other version={new.version + 1}."
        )
    for each in (new, new.twin):
        if each is not None:
            _declared.setdefault(each.name, {})[each.version] = each
    if new.shape is not None:
        _of_shape[new.shape] = new
    _tell()


def forget(name: str) -> None:
    """Take a type out of the register; for tests and interactive work."""
    for each in _declared.pop(name, {}).values():
        _of_shape.pop(each.shape, None)  # type: ignore[arg-type]
    _declared.pop(f"public.{name}", None)
    _tell()


def declared() -> tuple[EventType, ...]:
    """Every declared version, in the order of names and versions, public twins among them."""
    return tuple(_declared[name][version] for name in sorted(_declared) for version in sorted(_declared[name]))


def versions_of(name: str) -> Mapping[int, EventType]:
    return _declared.get(name, {})


def latest(name: str) -> EventType | None:
    versions = _declared.get(name)
    return versions[max(versions)] if versions else None


def type_of(shape: type) -> EventType | None:
    """The type that a class declares."""
    return _of_shape.get(shape)


def watch(changed: Callable[[], None]) -> None:
    """Call this whenever the register changes."""
    _watchers.append(changed)


def _tell() -> None:
    for changed in _watchers:
        changed()


def _refuse_wrong_schema(new: EventType) -> None:
    if new.schema.get("type") != "object":
        raise InvalidContract(f"The schema of {new.name} v{new.version} must be of type 'object'.")
    try:
        for each in (new, new.twin):
            assert each is None or each.validator
    except InvalidContract as error:
        raise InvalidContract(f"{new.name} v{new.version}: {error}") from None


def _purpose(shape: type) -> str:
    text = " ".join((shape.__dict__.get("__doc__") or "").split())
    return "" if text.startswith(f"{shape.__name__}(") else text  # what a dataclass writes about itself
