"""Is this payload what its type promises? The one door to the validator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from duebox.contracts.strict import resolved
from duebox.exceptions import InvalidContract

try:
    import jsonschema_rs as engine
except ImportError:  # no wheel for this platform: `pip install jsonschema` does the same, a hundred times slower
    engine = None  # type: ignore[assignment]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_VALUES = ("const", "enum", "default", "examples")


class Wrong(NamedTuple):
    """The first thing that a schema refuses."""

    path: tuple[str | int, ...]
    value: Any
    keyword: str
    node: Mapping[str, Any]
    """The part of the schema that refuses it."""

    @property
    def limit(self) -> Any:
        """What the keyword says."""
        return self.node.get(self.keyword)

    @property
    def place(self) -> str:
        """As in `data.lines[0].sku`."""
        return "data" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)


class Validator(Protocol):
    def is_valid(self, instance: Any, /) -> bool: ...
    def first_error(self, instance: Any, /) -> Wrong | None: ...


def compiled(schema: Mapping[str, Any]) -> Validator:
    """A validator of plain JSON values. Only local references are followed, never a network."""
    refuse_odd_references(schema)
    schema = {"$schema": DIALECT, **schema}
    try:
        return _Fast(schema) if engine else _Slow(schema)
    except InvalidContract:
        raise
    except Exception as error:
        raise InvalidContract(f"The schema cannot be used: {str(error).splitlines()[0]}") from error


class _Fast:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._validator = engine.validator_for(schema)
        self.is_valid = self._validator.is_valid

    def first_error(self, instance: Any, /) -> Wrong | None:
        for error in self._validator.iter_errors(instance):
            *above, keyword = error.schema_path
            node = _at(self._schema, above)
            return Wrong(tuple(error.instance_path), _at(instance, error.instance_path), str(keyword), node)
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
            return Wrong(tuple(error.absolute_path), error.instance, str(error.validator), error.schema)
        return None


def _at(whole: Any, path: list[str | int]) -> Any:
    for step in path:
        whole = whole[step]
    return whole


def refuse_odd_references(root: Mapping[str, Any]) -> None:
    """Every reference is a path inside of the schema, which means the same to everybody who follows it."""
    for schema in _schemas(root, root, set()):
        target = schema.get("$ref")
        # A schema that points elsewhere would make the program fetch what a stranger wrote.
        if isinstance(target, str) and target != "#" and not target.startswith("#/"):
            raise InvalidContract(
                f"The schema refers to {target!r}; only local references like '#/$defs/address' are followed, "
                "so copy it into $defs."
            )
        for word in ("$dynamicRef", "$recursiveRef", "$id"):
            if word in schema and not (word == "$id" and (schema is root or _has_no_references(schema))):
                raise InvalidContract(
                    f"The schema uses {word!r} ({schema[word]!r}), which gives references another meaning; leave it "
                    "out, and refer with '$ref' to a path like '#/$defs/address'."
                )


def _schemas(value: Any, root: Mapping[str, Any], seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """Every schema in a value, and what it refers to; values that a schema only mentions are none."""
    if isinstance(value, list):
        for part in value:
            yield from _schemas(part, root, seen)
    elif isinstance(value, Mapping) and id(value) not in seen:
        seen.add(id(value))
        yield value
        if isinstance(value.get("$ref"), str):
            yield from _schemas(resolved(value["$ref"], root), root, seen)
        for word, part in value.items():
            if word in _NAMED and isinstance(part, Mapping):
                yield from _schemas([*part.values()], root, seen)
            elif word not in _VALUES:
                yield from _schemas(part, root, seen)


def _has_no_references(schema: Mapping[str, Any]) -> bool:
    return not any("$ref" in each for each in _schemas(schema, schema, set()))
