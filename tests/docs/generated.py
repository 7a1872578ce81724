"""The parts of the documentation that are made from the code: `python -m tests.docs.generated` writes them anew.

A part stands between `<!-- generated: name -->` and `<!-- end -->` in a page.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import django

from tests.docs.pages import ROOT

PUBLIC = (
    "duebox",
    "duebox.when", "duebox.when.zones",
    "duebox.exceptions", "duebox.signals", "duebox.models", "duebox.fields", "duebox.middleware", "duebox.clock",
    "duebox.contracts", "duebox.contracts.cloudevents", "duebox.contracts.compat", "duebox.contracts.documents",
    "duebox.contracts.schema_files",
    "duebox.context", "duebox.context.logging",
    "duebox.testing", "duebox.embedded",
    "duebox.deliveries", "duebox.retention", "duebox.audit_log", "duebox.admin",
    "duebox.observe.status", "duebox.observe.explain", "duebox.observe.watch", "duebox.observe.rollup",
    "duebox.destinations", "duebox.destinations.envelope",
    "duebox.destinations.webhooks", "duebox.destinations.webhooks.endpoints",
    "duebox.destinations.aws", "duebox.destinations.celery", "duebox.destinations.django_tasks",
    "duebox.destinations.kafka", "duebox.destinations.nats", "duebox.destinations.rabbitmq",
    "duebox.destinations.redis_streams",
    "duebox.tasks.backend", "duebox.sqlalchemy", "duebox.redis.schedule_mirror",
    "duebox.integrations.apscheduler", "duebox.integrations.background_worker", "duebox.integrations.celery",
    "duebox.integrations.celery_beat", "duebox.integrations.lambda_handler", "duebox.integrations.views",
)  # fmt: skip
"""The modules that users import or name in their settings. What they may use of each is its `__all__`."""


def public_names() -> str:
    rows = [f"| `{name}` | {' '.join(f'`{each}`' for each in import_module(name).__all__)} |" for name in PUBLIC]
    return "\n".join(["| Module | Names |", "|---|---|", *rows])


_ROW = re.compile(r"^ *((?:[\w./]+ )*[\w./]+) {2,}(\S.*)$", re.MULTILINE)


def rows_of(package: str) -> list[tuple[list[str], str]]:
    """The lines of the map in the docstring of a package: names of modules, and what is in them."""
    path = ROOT.joinpath("src", *package.split("."), "__init__.py")
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return [(names.replace("/", "").split(), text) for names, text in _ROW.findall(docstring)]


def summary_of(package: str) -> str:
    path = ROOT.joinpath("src", *package.split("."), "__init__.py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")


def packages() -> list[str]:
    """Those that have a map of their own, in the order of the maps."""
    found, todo = [], ["duebox"]
    for package in todo:
        inner = [f"{package}.{name}" for names, _ in rows_of(package) for name in names if "." not in name]
        todo += [each for each in inner if ROOT.joinpath("src", *each.split("."), "__init__.py").exists()]
        found += [package] if rows_of(package) else []
    return [found[0], *sorted(found[1:])]


def table_of(package: str) -> str:
    rows = [f"| {' '.join(f'`{name}`' for name in names)} | {text} |" for names, text in rows_of(package)]
    return "\n".join(["| Module or package | What is in it |", "|---|---|", *rows])


def map_of_the_code() -> str:
    inner = [f"### `{each}`\n\n{summary_of(each)}\n\n{table_of(each)}" for each in packages()[1:]]
    return "\n\n".join([table_of("duebox"), *inner])


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "public-names": ("docs/reference/api.md", public_names),
    "map": ("docs/explain/design.md", map_of_the_code),
}


def part(name: str) -> tuple[Path, re.Match[str]]:
    path = ROOT / PARTS[name][0]
    found = re.search(rf"<!-- generated: {name} -->\n(.*?)<!-- end -->", path.read_text(), re.DOTALL)
    assert found, f"{path} has no part between <!-- generated: {name} --> and <!-- end -->"
    return path, found


def is_stale(name: str) -> bool:
    return part(name)[1][1].strip() != PARTS[name][1]()


def write(name: str) -> None:
    path, found = part(name)
    text = path.read_text()
    path.write_text(f"{text[: found.start(1)]}\n{PARTS[name][1]()}\n\n{text[found.end(1) :]}")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    for each in PARTS:
        write(each)
