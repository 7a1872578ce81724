"""Documents of the event types in Markdown: a page for each type, and an index.

Public events have pages of their own, for consumers outside: these pages say nothing about handlers, owners or code.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from duebox.contracts.compat import Verdict, compare
from duebox.contracts.compat.schema import Document, normalized
from duebox.contracts.event_types import EventType, by_name
from duebox.contracts.examples import example
from duebox.contracts.json_schema import Schema, as_schema, listed_types
from duebox.contracts.python_types import DECIMAL
from duebox.events.subscribers import receivers_of
from duebox.exceptions import InvalidContract

__all__ = ["pages", "public_pages"]


def code(text: str) -> str:
    """Inline code; the fence is longer than any in the text."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if text[:1] == "`" or text[-1:] == "`" else f"{fence}{text}{fence}"


def json_code(value: Any) -> str:
    """A JSON value as inline code; a plain text without its quotes."""
    is_plain = isinstance(value, str) and value and value.strip() == value and value.isprintable()
    return code(value if is_plain else json.dumps(value, ensure_ascii=False))


def block(text: str, language: str = "") -> str:
    fence = "`" * max(3, *(len(each) + 1 for each in re.findall("`{3,}", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table without its empty columns."""
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    first, *rest = zip(*columns, strict=True)
    lines = [first, ["---"] * len(first), *rest]
    cells = [[" ".join(text.split()).replace("|", r"\|") for text in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


_TYPES = {
    "string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null",
    "array": "list", "object": "object",
}  # fmt: skip
_FORMATS = {
    "date-time": "date and time", "date": "date", "time": "time of day", "duration": "duration", "uuid": "UUID",
    "email": "e-mail address", "idn-email": "e-mail address", "uri": "URL", "iri": "URL", "hostname": "host name",
    "ipv4": "IPv4 address", "ipv6": "IPv6 address",
}  # fmt: skip
# Keywords that few schemas use; they are shown as they are.
_RARE = (
    "contains", "minContains", "maxContains", "propertyNames", "patternProperties", "dependentRequired",
    "dependentSchemas", "not", "if", "then", "else", "contentEncoding", "contentMediaType",
)  # fmt: skip
_PLURALS = {
    "e-mail address": "e-mail addresses", "IPv4 address": "IPv4 addresses", "IPv6 address": "IPv6 addresses",
    "time of day": "times of day", "date and time": "dates and times", "true or false": "true or false",
    "decimal number as text": "decimal numbers as text", "null": "null", "anything": "anything",
}  # fmt: skip
_CHOICES = ("anyOf", "oneOf", "allOf")
_DEEPEST = 12


def rules(schema: Schema) -> str:
    """The constraints of a value, beyond its type."""
    return "; ".join(_rules(schema))


def _rules(schema: Schema) -> Iterator[str]:
    yield from _between(schema, "minLength", "maxLength", "character")
    # A list with a schema for each item ends after the last one.
    ends = {"maxItems": len(schema.get("prefixItems", ()))} if schema.get("items") is False else {}
    yield from _between({**ends, **schema}, "minItems", "maxItems", "item")
    yield from _between(schema, "minProperties", "maxProperties", "field")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"from {low} to {high}"
    elif low is not None:
        yield f"{low} or more"
    elif high is not None:
        yield f"{high} or less"
    for word, text in (("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"), ("multipleOf", "a multiple of")):
        if word in schema:
            yield f"{text} {schema[word]}"
    if "pattern" in schema and schema["pattern"] != DECIMAL:
        yield f"matches {code(schema['pattern'])}"
    if schema.get("uniqueItems"):
        yield "nothing twice"
    if schema.get("format") and schema["format"] not in _FORMATS:
        yield f"format {code(schema['format'])}"
    if schema.get("properties") and schema.get("additionalProperties", False) is not False:
        yield "may have other fields"
    if "default" in schema:
        yield f"by default {json_code(schema['default'])}"
    if schema.get("deprecated"):
        yield "going away"
    yield from (
        f"{code(word)}: {code(json.dumps(schema[word], ensure_ascii=False))}" for word in _RARE if word in schema
    )


def _between(schema: Schema, least: str, most: str, thing: str) -> Iterator[str]:
    low, high = schema.get(least, 0), schema.get(most)
    if low or high is not None:
        things = thing if (low if high is None else high) == 1 else f"{thing}s"
        if high is None:
            yield f"at least {low} {things}"
        elif low:
            yield f"exactly {low} {things}" if low == high else f"{low} to {high} {things}"
        else:
            yield f"at most {high} {things}"


class Field(NamedTuple):
    path: str
    """`lines[].sku`; `prices.*` for each value of an object whose names are free."""
    kind: str
    required: bool | None
    """None for the items of a list."""
    meaning: str
    rules: str
    personal: bool


class _Context(NamedTuple):
    """Where a field is: its parent, and the definitions around it with the path where each was found."""

    path: str = ""
    personal: bool = False
    definitions: Mapping[str, str] = {}
    depth: int = 0


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """Every field, parents before their children."""
    document = Document(dict(schema))
    return list(_FieldWalk(document).inside(document.root, _Context()))


def field_table(schema: Mapping[str, Any]) -> str:
    found = fields(schema)
    if not found:
        return "It has no data."
    whole = rules(normalized(schema, Document(dict(schema))))
    required = {True: "yes", False: "no", None: ""}
    rows = [
        (code(each.path), each.kind, required[each.required], each.meaning, each.rules, "yes" if each.personal else "")
        for each in found
    ]
    lines = table(("Field", "Type", "Required", "Meaning", "Rules", "Personal data"), rows)
    return f"{lines}\n\nThe data as a whole: {whole}." if whole else lines


class _FieldWalk:
    def __init__(self, document: Document) -> None:
        self.document = document

    def inside(self, schema: Any, context: _Context) -> Iterator[Field]:
        """The fields of an object, of the items of a list, of each value of an object with free names."""
        schema, path = self._normalized(schema), context.path
        required = set(schema.get("required", ()))
        for name, part in schema.get("properties", {}).items():
            yield from self._field(part, f"{path}.{name}" if path else name, name in required, context)
        for index, part in enumerate(schema.get("prefixItems", ())):
            yield from self._field(part, f"{path}[{index}]", None, context)
        for word, step in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(schema.get(word), dict) and schema[word]:
                own, *rest = self._field(schema[word], path + step, None, context)
                # The line of the list says the type of its items; they get a line of their own for more than that.
                more = own.rules or own.meaning or own.personal != context.personal or "like" in own.kind
                yield from (own, *rest) if more else rest
        for word in _CHOICES:
            forms = schema.get(word, ())
            for number, form in enumerate(forms, start=1):
                note = "" if word == "allOf" else f"in form {number} of {len(forms)}"
                for each in self.inside(form, context):
                    yield each._replace(rules="; ".join(filter(None, (note, each.rules))))

    def _field(self, part: Any, path: str, required: bool | None, context: _Context) -> Iterator[Field]:
        schema = self._normalized(part)
        personal = context.personal or self._is_personal(schema)
        references = list(self._references(as_schema(part)))
        again = next((context.definitions[each] for each in references if each in context.definitions), None)
        kind = self._kind(schema) + ("" if again is None else f", like {code(again)}")
        yield Field(path, kind, required, str(schema.get("description", "")), rules(schema), personal)
        if again is None and context.depth < _DEEPEST:
            definitions = {**context.definitions, **dict.fromkeys(references, path)}
            yield from self.inside(part, _Context(path, personal, definitions, context.depth + 1))

    def _kind(self, schema: Schema) -> str:
        """The type in words: a text, a list of dates, one of two values."""
        if "enum" in schema:
            *others, last = map(json_code, schema["enum"])
            return f"{', '.join(others)} or {last}" if others else f"always {last}"
        types = sorted(listed_types(schema), key="null".__eq__)
        if not types:
            forms = schema.get("anyOf") or schema.get("oneOf") or []
            return f"one of {len(forms)} forms" if forms else "anything"
        return " or ".join(self._type(each, schema) for each in types)

    def _type(self, name: str, schema: Schema) -> str:
        if name == "array" and schema.get("items"):
            return f"list of {self._plural(schema['items'])}"
        if name == "string":
            is_decimal = schema.get("pattern") == DECIMAL
            return "decimal number as text" if is_decimal else _FORMATS.get(schema.get("format", ""), "text")
        if name == "object" and not schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
            return f"{self._plural(schema['additionalProperties'])}, by name"
        return _TYPES[name]

    def _plural(self, part: Any) -> str:
        schema = self._normalized(part)
        one = self._kind(schema)
        if one in _PLURALS or "enum" in schema:
            return _PLURALS.get(one, one)
        return f"({one})" if " of " in one or " or " in one else f"{one}s"

    def _normalized(self, part: Any) -> Schema:
        return normalized(part, self.document)

    def _is_personal(self, schema: Schema) -> bool:
        """Whether it is marked, in any of its forms."""
        forms = [each for word in _CHOICES for each in schema.get(word, ())]
        return bool(schema.get("x-pii")) or any(self._is_personal(self._normalized(form)) for form in forms)

    def _references(self, part: Schema) -> Iterator[str]:
        """What it refers to, itself or as one of its choices."""
        if "$ref" in part:
            yield part["$ref"]
        for word in _CHOICES:
            for each in part.get(word, ()):
                yield from self._references(as_schema(each))


def change_log(versions: Sequence[EventType]) -> Iterator[str]:
    """What changed from version to version, the newest first, as parts of a page."""
    for old, new in reversed([*pairwise(versions)]):
        yield f"### From version {old.version} to version {new.version}"
        verdict = compare(old.schema, new.schema)
        found = [*changes(old, new)]
        # Breaks that belong to no field: they concern the event as a whole.
        others = {each.path: each.what for each in (*verdict.backward, *verdict.forward)}
        found += [(path, why) for path, why in others.items() if path not in dict(found)]
        rows = [(what, _broken(path, verdict, old, new)) for path, what in found]
        yield table(("What changed", "What it breaks"), rows) if rows else "The fields are the same."


def _broken(path: str, verdict: Verdict, old: EventType, new: EventType) -> str:
    """New events can break readers of the old version; stored events may be invalid under the new one."""
    found = []
    if any(each.path == path for each in verdict.forward):
        found.append(f"readers of version {old.version}")
    if any(each.path == path for each in verdict.backward) and not new.twin_of:
        repaired = ", which are upcast" if new.upcast else ""
        found.append(f"stored events of version {old.version}{repaired}")
    return "; ".join(found)


def changes(old: EventType, new: EventType) -> Iterator[tuple[str, str]]:
    """The path of each field that was added, removed or changed, and a sentence about it."""
    before, after = ({each.path: each for each in fields(kind.schema)} for kind in (old, new))
    for path, field in before.items():
        if path in after:
            yield from ((path, what) for what in _field_changes(field, after[path]))
        elif not _has_parent_in(path, before.keys() - after.keys()):
            yield path, f"{code(path)} was removed"
    for path, field in after.items():
        if path not in before and not _has_parent_in(path, after.keys() - before.keys()):
            yield path, f"{code(path)} is new{', and required' if field.required else ''}: {field.kind}"


def _has_parent_in(path: str, paths: Iterable[str]) -> bool:
    return any(path.startswith((f"{each}.", f"{each}[")) for each in paths)


def _field_changes(old: Field, new: Field) -> Iterator[str]:
    name = code(new.path)
    if old.kind != new.kind:
        yield f"{name} was {old.kind}, and is {new.kind} now"
    if old.required != new.required:
        yield f"{name} {'became required' if new.required else 'is not required any more'}"
    if old.rules != new.rules:
        yield f"{name} has other rules: {new.rules or 'none'}, where it had {old.rules or 'none'}"
    if old.personal != new.personal:
        yield f"{name} is {'now' if new.personal else 'no longer'} marked as personal data"


MARK = "<!-- Written by `manage.py duebox events docs`. Do not edit: change the event type and run it again. -->"
_PAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+\.md")
_ENVELOPE = (
    ("`id`", "UUID", "the same at every delivery: use it to ignore duplicates"),
    ("`type`, `version`", "text, whole number", "what happened, and which version of the fields it has"),
    ("`occurred_at`", "date and time", "when it happened"),
    ("`about`", "two texts", "what it happened to: a kind of thing and its id"),
    ("`organization`", "text", "the tenant that it belongs to"),
    ("`correlation_id`", "text", "shared by all events with the same first cause"),
    ("`data`", "object", "the fields that the page of the event describes"),
)

Versions = Sequence[EventType]


def pages(kinds: Iterable[EventType]) -> dict[str, str]:
    """All pages by their path in a folder; those of public events are in `public/`."""
    types = by_name(kinds)
    public = {name: versions for name, versions in types.items() if versions[-1].twin_of}
    internal = {name: versions for name, versions in types.items() if name not in public}
    parts = [
        "# Events",
        MARK,
        "The events that this project emits, by what they are about.",
        *_groups(internal, public),
    ]
    if public:
        parts += [
            "## Public event",
            "Some of them have a [public event](public/index.md), which external consumers may receive.",
        ]
    found = {"index.md": joined([*parts, *_envelope()])}
    found |= {_file_name(versions[-1]): page(versions) for versions in internal.values()}
    return found | {f"public/{path}": text for path, text in _public_pages(public).items() if public}


def public_pages(kinds: Iterable[EventType]) -> dict[str, str]:
    """The pages of public events alone, for a folder of their own."""
    return _public_pages(by_name(kind for kind in kinds if kind.twin_of))


def _public_pages(types: Mapping[str, Versions]) -> dict[str, str]:
    parts = ["# Public events", MARK, "The events that you can subscribe to, by what they are about."]
    index = joined([*parts, *_groups(types, {}), *_envelope()])
    return {"index.md": index} | {_file_name(versions[-1]): page(versions) for versions in types.values()}


def _groups(types: Mapping[str, Versions], public: Mapping[str, Versions]) -> Iterator[str]:
    groups: dict[str, list[tuple[str, ...]]] = {}
    for versions in types.values():
        kind, path = versions[-1], _file_name(versions[-1])
        link = f"[yes](public/{path})" if f"public.{kind.name}" in public else ""
        group = kind.aggregate or (kind.twin_of or kind.name).rpartition(".")[0]
        row = (f"[{kind.name}]({path})", first_sentence(kind.purpose), str(kind.version))
        groups.setdefault(group, []).append((*row, "" if kind.twin_of else kind.owner, link))
    for name in sorted(groups):
        yield f"## {name}"
        yield table(("Event", "What it means", "Version", "Owner", "Public"), groups[name])


def _envelope() -> tuple[str, str]:
    return "## What every event has", table(("Field", "Type", "Meaning"), _ENVELOPE)


def _file_name(kind: EventType) -> str:
    """Without the prefix of public events, which have a folder of their own."""
    return f"{kind.twin_of or kind.name}.md"


def page(versions: Versions) -> str:
    """The page of a type, from its versions, the oldest first.

    The page of a public event is for readers outside: it does not say who receives it, who owns it and where it is
    declared.
    """
    newest, is_public = versions[-1], bool(versions[-1].twin_of)
    parts = [f"# {newest.name}", MARK, newest.purpose or "It has no description yet."]
    parts += ["\n".join(f"- {fact}" for fact in _facts(versions)), *_version(newest, versions)]
    if not is_public:
        parts += ["## Who receives it", _receivers(newest)]
    if published := [each.public_event for each in versions if each.public_event]:
        public = published[-1]
        shown = ", ".join(code(each.path) for each in fields(public.schema))
        parts += [
            "## Public event",
            f"It is emitted together with [{public.name}](public/{_file_name(public)}), which webhooks of the same "
            f"organization may receive. Its data contains only these fields of version {public.version}: {shown}.",
        ]
    for each in reversed(versions[:-1]):
        parts += _version(each, versions)
    return joined([*parts, *(["## Changes", *change_log(versions)] if len(versions) > 1 else [])])


def _facts(versions: Versions) -> Iterator[str]:
    newest = versions[-1]
    if newest.aggregate:
        yield f"**About:** {code(newest.aggregate)}"
    others = ", ".join(f"[{each.version}](#version-{each.version})" for each in reversed(versions[:-1]))
    yield f"**Version:** {newest.version}{f', and before it {others}' if others else ''}"
    if newest.twin_of:
        return
    if newest.owner:
        yield f"**Owner:** {newest.owner}"
    yield f"**Declared in:** {code(newest.origin)}"
    if any(field.personal for each in versions for field in fields(each.schema)):
        yield "**Personal data:** yes, in the fields that are marked. Public events never contain it."


def _receivers(kind: EventType) -> str:
    rows = []
    for each in receivers_of(kind.name):
        text = inspect.getdoc(each.handler) if inspect.isroutine(each.handler) else None
        patterns = ", ".join(map(code, each.asks_for(kind.name)))
        rows.append((code(each.name), patterns, first_sentence(text or "")))
    return table(("Handler", "Asks for", "What it does"), rows) if rows else "No handler of this project."


def _version(kind: EventType, versions: Versions) -> Iterator[str]:
    yield f"## Version {kind.version}"
    yield _upcasting(kind, versions)
    yield field_table(kind.schema)
    data = example(kind.schema)
    if data is None:
        yield "No example could be generated: no value seems to match the schema."
    elif data:
        yield "For example:"
        yield block(json.dumps(data, indent=2, ensure_ascii=False), "json")


def _upcasting(kind: EventType, versions: Versions) -> str:
    """How it relates to the version before or after it."""
    if kind.twin_of or len(versions) == 1:
        return ""
    if kind is versions[-1]:
        before = f"version {kind.version - 1}"
        if kind.upcast:
            return f"Stored events of {before} are upcast to it before a handler sees them."
        return f"There is no upcast from {before}: a handler receives earlier events in their own version."
    following = f"version {kind.version + 1}"
    if any(each.version == kind.version + 1 and each.upcast for each in versions):
        return f"Upcast to {following} before a handler sees it."
    return f"There is no upcast to {following}: a handler has to check `event.version`."


class Report(NamedTuple):
    """How a folder differs from what it should contain; paths are relative to it."""

    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    """Generated for types that no longer exist."""
    foreign: tuple[str, ...] = ()
    """Named like the page of a type, but not generated: they are not changed."""
    unchanged: int = 0

    @property
    def in_step(self) -> bool:
        return not (self.missing or self.changed or self.stale)


class Folder:
    """A folder of generated pages; `inner` are the folders inside of it that are generated too."""

    def __init__(self, place: Path, pages: Mapping[str, str], *, inner: Sequence[str] = ()) -> None:
        self.place, self.pages, self.folders = place, pages, ("", *inner)

    def compared(self) -> Report:
        existing = {name: self._read(name) for name in self.pages if (self.place / name).exists()}
        changed = [name for name, text in existing.items() if text != self.pages[name]]
        paths = [path for folder in self.folders for path in sorted((self.place / folder).glob("*.md"))]
        others = [name for path in paths if (name := path.relative_to(self.place).as_posix()) not in self.pages]
        stale = [name for name in others if MARK in self._read(name)]
        foreign = [name for name in others if name not in stale and _PAGE.fullmatch(Path(name).name)]
        missing = tuple(name for name in self.pages if name not in existing)
        return Report(missing, tuple(changed), tuple(stale), tuple(foreign), len(existing) - len(changed))

    def write(self) -> Report:
        """Write the pages that differ. A page that was not generated is never overwritten or removed."""
        report = self.compared()
        for name in report.changed:
            if MARK not in self._read(name):
                raise InvalidContract(
                    f"{self.place / name} was not generated by `duebox events docs`; move it, or write to another "
                    "folder."
                )
        for name in (*report.missing, *report.changed):
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            (self.place / name).write_text(self.pages[name], encoding="utf-8")
        for name in report.stale:
            (self.place / name).unlink()
        return report

    def _read(self, name: str) -> str:
        return (self.place / name).read_text(encoding="utf-8")
