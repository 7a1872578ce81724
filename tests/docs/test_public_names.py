"""What users may import stands in one list, and documentation, examples and deployments use nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module

import pytest

from tests.docs.generated import PARTS, PUBLIC, is_stale
from tests.docs.pages import ROOT, blocks, pages

# What Django itself loads by its path, or what a log line or metric has for a name.
LOADED_BY_PATH = {"duebox.dashboard", "duebox.dashboard.urls"}
FILES = sorted(path for folder in ("examples", "deploy") for path in (ROOT / folder).rglob("*.py"))
DOTTED = re.compile(r"\bduebox(?:\.\w+)+")


def code():
    """Python as users see it: the blocks of every page, and the files of the examples and of the deployments."""
    for page in pages():
        yield from ((f"{page.name}:{block.line}", block.text) for block in blocks(page) if block.language == "python")
    yield from ((path.relative_to(ROOT).as_posix(), path.read_text()) for path in FILES)


def parsed(text):
    """The tree, or None for a block that shows only a part of a statement, as a signature does."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "duebox":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "duebox")


def is_public(path):
    """Whether it is a public module, or a name in `__all__` of one."""
    module, _, name = path.rpartition(".")
    return path in PUBLIC or path in LOADED_BY_PATH or (module in PUBLIC and name in import_module(module).__all__)


def is_module_of_duebox(path):
    place = ROOT.joinpath("src", *path.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


@pytest.mark.parametrize("name", PARTS)
def test_what_is_generated_is_as_the_code_says(name):
    assert not is_stale(name), "run: .venv/bin/python -m tests.docs.generated"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_names_what_is_public_in_it(name):
    module = import_module(name)
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
    assert len(set(module.__all__)) == len(module.__all__)


def test_documentation_and_examples_import_public_names_only():
    found = [
        f"{place} imports {path}"
        for place, text in code()
        if (tree := parsed(text)) is not None
        for path in imported(tree)
        if not is_public(path) and path.partition(".")[0] == "duebox"
    ]
    assert found == []


def test_a_block_that_cannot_be_parsed_imports_nothing():
    found = [place for place, text in code() if parsed(text) is None and re.search(r"^\s*(from|import) duebox", text)]
    assert found == []


def test_pages_name_no_private_module():
    # The changelog says what modules were called before; requirements and design are about the source; loggers and
    # metrics have names that look like modules.
    others = {"CHANGELOG.md", "requirements.md", "design.md", "logs.md", "metrics.md"}
    told = [page for page in pages() if page.name not in others]
    found = [
        f"{page.name} names {path}"
        for page in told
        for path in DOTTED.findall(page.read_text())
        if path.count(".") > 1 and is_module_of_duebox(path.rpartition(".")[0]) and not is_public(path)
    ]
    assert found == []


def test_duebox_and_the_modules_without_models_can_be_imported_before_django_is_set_up():
    light = [
        "duebox", "duebox.when", "duebox.exceptions", "duebox.signals", "duebox.contracts", "duebox.context",
        "duebox.context.logging", "duebox.fields", "duebox.middleware", "duebox.destinations",
        "duebox.destinations.webhooks", "duebox.audit_log", "duebox.embedded", "duebox.integrations.celery_beat",
    ]  # fmt: skip
    lines = [*(f"import {name}" for name in light), "from duebox.destinations.webhooks import sign, verify"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
