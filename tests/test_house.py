"""The house rules that a machine can hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import duebox
from duebox.store.statements import statement

HOUSE = Path(duebox.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))
STATEMENTS = sorted(path for path in HOUSE.rglob("*.sql") if path.parent.name == "sql")

# From the middle outwards, as the docstring of the package draws it; a room may import what is in front of it.
LAYERS = [
    {"exceptions", "outcome", "fact", "payload", "ids", "clock", "headers", "when", "fingerprint"},
    {"intent"},
    {"conf", "context", "signals", "saving", "identities"},
    {"tracing", "logs", "origins"},
    {"contracts", "subscribers"},
    {"models", "promise"},
    {"store"},
    {"emit"},
    {"auditing", "destinations", "tasks", "routing"},
    {"planner", "drafts", "deliveries", "status"},
    {"schedule", "deciding", "firing", "syncing", "following", "rezone"},
    {"upcoming", "plans"},
    {"sweeps", "sweeping", "periodic", "asynchronous", "capture", "row_changes"},
    {"upkeep", "notices"},
    {"redis_tier"},
    {"worker"},
    {"travel"},
    {
        "testing",
        "embedded",
        "sqlalchemy",
        "middleware",
        "fields",
        "checks",
        "destination_checks",
        "apps",
        "entrypoints",
        "management",
    },
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
SQL = re.compile(
    r"\b(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE|ALTER TABLE|LISTEN|SAVEPOINT)\b"
)
ROOMS_WITH_SQL = {"store", "migrations", "embedded"}
# The LISTEN of the listener is a command of the session, not a question.
KNOWN_EXCEPTIONS = {"worker/listener.py": "LISTEN"}


def name_of(path):
    return path.relative_to(HOUSE).as_posix()


def room_of(path):
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imported_rooms(path):
    """The rooms of the house that a file imports, wherever in it, except for type checking only."""
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        modules = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            modules = [node.module]
            if node.module == "duebox":
                modules = [f"duebox.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        yield from (module.split(".")[1] for module in modules if module.startswith("duebox."))


def test_every_room_has_its_place_in_the_map():
    rooms = {room_of(path) for path in FILES} - {"__init__", "__main__", "migrations"}
    assert rooms == set(LEVEL)
    drawn = duebox.__doc__
    assert [room for room in LEVEL if room not in drawn and room not in {"apps", "checks", "entrypoints"}] == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_to_the_middle(path):
    room = room_of(path)
    if room in {"__init__", "__main__", "migrations"}:
        return
    outward = {each for each in imported_rooms(path) if each != room and LEVEL[each] > LEVEL[room]}
    assert outward == set(), f"{name_of(path)} imports {outward}, which lie further out"


def test_the_innermost_values_know_nothing_of_django():
    for path in FILES:
        if room_of(path) in LAYERS[0] | LAYERS[1]:
            assert not re.search(r"^(from|import) django", path.read_text(), re.MULTILINE), path


def test_every_statement_is_run_by_somebody():
    source = "\n".join(path.read_text() for path in FILES)
    unused = [path.stem for path in STATEMENTS if f'"{path.stem}"' not in source]
    assert unused == []


def test_every_statement_that_is_run_exists():
    called = {name for path in FILES for name in re.findall(r'\b(?:run|execute)\("(\w+)", ', path.read_text())}
    assert called
    assert called <= {path.stem for path in STATEMENTS}


@pytest.mark.parametrize("path", STATEMENTS, ids=name_of)
def test_a_file_holds_one_statement(path):
    text = re.sub(r"'[^']*'", "''", statement(path.stem)).strip()
    assert text
    assert ";" not in text


def test_the_public_names_exist_in_alphabetical_order():
    assert sorted(duebox.__all__) == duebox.__all__
    assert all(hasattr(duebox, name) for name in duebox.__all__)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_sql_lives_in_its_room_only(path):
    if room_of(path) in ROOMS_WITH_SQL:
        return
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in documentation:
            text = node.value if isinstance(node.value, str) else node.value.decode()
            found |= {match.group(0) for match in SQL.finditer(text)}
    assert found <= {KNOWN_EXCEPTIONS.get(name_of(path))}
