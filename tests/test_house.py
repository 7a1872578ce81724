"""The rules of the code base that a machine can check: layers, no cycles, no SQL outside of `store`, one map."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import duebox
from duebox.store.run_sql import statement
from tests.docs.generated import packages, rows_of

SOURCE = Path(duebox.__file__).parent
DESIGN = SOURCE.parents[1] / "docs" / "explain" / "design.md"
FILES = sorted(SOURCE.rglob("*.py"))
STATEMENTS = sorted(path for path in SOURCE.rglob("*.sql") if path.parent.name == "sql")

PACKAGES = packages()
UNLAYERED = {"", "__main__", "migrations"}  # the package itself, which re-exports, and what Django loads by name
UNLISTED = {"migrations", "templatetags"}  # what Django loads by name
WITHOUT_DJANGO = [name for names, _ in rows_of("duebox") for name in names]
WITHOUT_DJANGO = WITHOUT_DJANGO[: WITHOUT_DJANGO.index("conf")]

SQL = re.compile(
    r"\b(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE TABLE|ALTER TABLE|LISTEN|SAVEPOINT)\b"
)
PACKAGES_WITH_SQL = {"store", "migrations", "embedded"}
# LISTEN is a command of the session, not a statement about rows.
KNOWN_SQL = {"worker/listener.py": "LISTEN"}


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def module_of(path):
    """The dotted name below `duebox`; that of a package for its `__init__.py`."""
    return name_of(path).removesuffix(".py").replace("/", ".").removesuffix("__init__").rstrip(".")


MODULES = {module_of(path): path for path in FILES}


def top_of(module):
    return module.partition(".")[0]


def levels_of(package):
    """The names in the map of a package, each with its place from the top."""
    return {name: level for level, (names, _) in enumerate(rows_of(package)) for name in names}


def listed(module, levels):
    """The name in a map that a module belongs to: its own, or that of its package."""
    while module not in levels:
        assert "." in module, f"the docstring of its package does not list {module}"
        module = module.rpartition(".")[0]
    return module


@cache
def tree_of(path):
    return ast.parse(path.read_text())


def imports_of(path, *, at_import_only=False):
    """The modules of Duebox that a file imports, except for type checking."""
    nodes = [tree_of(path)]
    while nodes:
        node = nodes.pop()
        for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        later = at_import_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if for_types or later:
            continue
        nodes += [
            each
            for each in ast.iter_child_nodes(node)
            if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".partition(".")[2]
                is_module = inner in MODULES and (node.module != "duebox" or alias.name not in duebox.__all__)
                yield inner if is_module else node.module.partition(".")[2], node.module
        elif isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[2], alias.name) for alias in node.names)


def duebox_imports(path, **options):
    return {module for module, full in imports_of(path, **options) if full.partition(".")[0] == "duebox" and module}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_of_a_package_names_all_that_is_in_it(package):
    inside = f"{package}.".removeprefix("duebox").removeprefix(".")
    own = {module.removeprefix(inside).partition(".")[0] for module in MODULES if module.startswith(inside)}
    names = [name for names, _ in rows_of(package) for name in names]
    assert len(set(names)) == len(names)
    own -= UNLISTED | {"", "__main__"}
    assert own - set(names) == set(), f"list them in the docstring of {package}, below what they import"
    assert {name for name in names if "." not in name} - own - {"migrations"} == set()
    assert [name for name in names if inside + name not in MODULES] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_imports_what_stands_above_it_in_the_map(package):
    inside = f"{package}.".removeprefix("duebox").removeprefix(".")
    levels, outward = levels_of(package), []
    for module, path in MODULES.items():
        own = module.removeprefix(inside)
        if not module.startswith(inside) or top_of(own) in UNLAYERED | UNLISTED:
            continue
        for each in sorted(duebox_imports(path)):
            other = each.removeprefix(inside)
            if each.startswith(inside) and top_of(other) not in UNLAYERED | UNLISTED:
                here, there = listed(own, levels), listed(other, levels)
                outward += [f"{module} imports {each}"] * (levels[there] > levels[here])
    assert outward == []


def test_every_package_with_modules_has_a_map():
    with_modules = {module.rpartition(".")[0] for module in MODULES if "." in module}
    known = {each.removeprefix("duebox.") for each in PACKAGES} | {"management", "management.commands"}
    assert sorted(each for each in with_modules - known if each.rpartition(".")[2] not in UNLISTED) == []


PATHS = [("emit", 14), ("webhook", 16), ("failure", 12), ("schedule", 11), ("row change", 11), ("audit", 14)]


@pytest.mark.parametrize(("path", "most"), PATHS)
def test_a_path_through_the_code_is_short_and_its_files_exist(path, most):
    text = DESIGN.read_text().partition(f"<!-- path: {path}, {most} files at most -->")[2].lstrip().partition("\n\n")[0]
    files = re.findall(r"\]\((\S+)\)", text)
    assert len(files) > 5
    assert len(files) == len(set(files)) <= most
    assert [name for name in files if not (DESIGN.parent / name).is_file()] == []


def test_no_modules_import_each_other():
    edges = {module: duebox_imports(path, at_import_only=True) for module, path in MODULES.items()}
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for each in sorted(edges.get(module, ())):
            visit(each)
        done.add(path.pop())

    for module in edges:
        visit(module)


def test_the_innermost_values_know_nothing_of_django():
    levels = levels_of("duebox")
    found = [
        name_of(path)
        for module, path in MODULES.items()
        if top_of(module) not in UNLAYERED
        and listed(module, levels) in WITHOUT_DJANGO
        and re.search(r"^(from|import) django", path.read_text(), re.MULTILINE)
    ]
    assert found == []


def test_every_module_says_what_it_is_for():
    silent = [
        name_of(path)
        for path in FILES
        if not ast.get_docstring(tree_of(path)) and top_of(module_of(path)) not in {"migrations", "management", "apps"}
    ]
    assert silent == []


def test_every_statement_is_used():
    source = "\n".join(path.read_text() for path in FILES)
    unused = [path.stem for path in STATEMENTS if f'"{path.stem}"' not in source]
    assert unused == []


def test_every_statement_that_is_run_exists():
    called = {name for path in FILES for name in re.findall(r'\b(?:run|execute)\("(\w+)", ', path.read_text())}
    assert called
    assert called <= {path.stem for path in STATEMENTS}


def test_a_file_holds_one_statement():
    for path in STATEMENTS:
        text = re.sub(r"'[^']*'", "''", statement(path.stem)).strip()
        assert text, path
        assert ";" not in text, path


def test_the_public_names_exist_in_alphabetical_order():
    assert sorted(duebox.__all__) == duebox.__all__
    assert all(hasattr(duebox, name) for name in duebox.__all__)


def test_sql_is_in_the_store_only():
    found = []
    for module, path in MODULES.items():
        if top_of(module) in PACKAGES_WITH_SQL:
            continue
        tree = tree_of(path)
        documentation = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in documentation:
                text = node.value if isinstance(node.value, str) else node.value.decode()
                found += [(name_of(path), match.group(0)) for match in SQL.finditer(text)]
    assert [each for each in found if KNOWN_SQL.get(each[0]) != each[1]] == []
