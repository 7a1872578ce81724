"""Is this payload what its type promises? The one door to the validator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from duebox.exceptions import InvalidContract

try:
    import jsonschema_rs as engine
except ImportError:  # no wheel for this platform: `pip install jsonschema` does the same, a hundred times slower
    engine = None  # type: ignore[assignment]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Wrong(NamedTuple):
    """The first thing that a schema refuses."""

    path: tuple[str | int, ...]
    value: Any
    message: str

    @property
    def place(self) -> str:
        """As in `data.lines[0].sku`."""
        return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


class Validator(Protocol):
    def is_valid(self, instance: Any, /) -> bool: ...
    def first_error(self, instance: Any, /) -> Wrong | None: ...


def compiled(schema: Mapping[str, Any]) -> Validator:
    """A validator of plain JSON values. Only local references are followed, never a network."""
    refuse_remote_references(schema)
    schema = {"$schema": DIALECT, **schema}
    try:
        return _Fast(schema) if engine else _Slow(schema)
    except InvalidContract:
        raise
    except Exception as error:
        raise InvalidContract(f"The schema cannot be used: {str(error).splitlines()[0]}") from error


class _Fast:
    def __init__(self, schema: Schema) -> None:
        self._validator = engine.validator_for(schema)
        self.is_valid = self._validator.is_valid

    def first_error(self, instance: Any, /) -> Wrong | None:
        for error in self._validator.iter_errors(instance):
            return Wrong(tuple(error.instance_path), _at(instance, error.instance_path), error.message)
        return None


class _Slow:
    def __init__(self, schema: Schema) -> None:
        try:
            from jsonschema import Draft202012Validator
        except ImportError:
            raise InvalidContract("Schemas need a validator; run: pip install jsonschema-rs") from None
        Draft202012Validator.check_schema(schema)
        self._validator = Draft202012Validator(schema)

    def is_valid(self, instance: Any, /) -> bool:
        return bool(self._validator.is_valid(instance))

    def first_error(self, instance: Any, /) -> Wrong | None:
        for error in self._validator.iter_errors(instance):
            return Wrong(tuple(error.absolute_path), error.instance, error.message)
        return None


def _at(instance: Any, path: list[str | int]) -> Any:
    for step in path:
        instance = instance[step]
    return instance


def refuse_remote_references(schema: Any) -> None:
    """A schema that points elsewhere would make the program fetch what a stranger wrote."""
    for place in _mappings(schema):
        for word in ("$ref", "$dynamicRef"):
            target = place.get(word)
            if isinstance(target, str) and not target.startswith("#"):
                raise InvalidContract(
                    f"The schema refers to {target!r}; only local references like '#/$defs/address' are followed, "
                    "so copy it into $defs."
                )


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from _mappings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _mappings(part)
