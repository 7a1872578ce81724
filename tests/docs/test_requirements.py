from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "requirements.md").read_text()


def test_every_cited_test_exists():
    cited = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
    assert cited
    assert [f"{file}::{name}" for file, name in cited if not _has(file, name)] == []


def test_every_cited_file_exists():
    cited = [path for line in PAGE.splitlines() for path in _places(line)]
    assert cited
    roots = (ROOT / "src" / "duebox", ROOT)
    assert [path for path in cited if not any((root / path).exists() for root in roots)] == []


def test_every_requirement_has_one_row():
    ids = re.findall(r"^\| ([ESDCO]\d+) \|", PAGE, flags=re.MULTILINE)
    counts = {"E": 8, "S": 9, "D": 13, "C": 6, "O": 12}
    assert ids == [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]


def _has(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.exists() and f"def {name}(" in path.read_text()


def _places(line: str) -> list[str]:
    cells = line.split(" | ")
    return re.findall(r"`([\w/.]+)`", cells[2]) if line.startswith("| ") and len(cells) == 4 else []
