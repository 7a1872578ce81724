"""The tunables of the worker stand in one place, and each of them is used."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import duebox.worker
from duebox.worker.tunables import TUNABLES, Tunables

FOLDER = Path(duebox.worker.__file__).parent
SOURCES = {path: path.read_text() for path in FOLDER.rglob("*.py") if path.name != "tunables.py"}


def test_each_of_them_is_used():
    used = {name for text in SOURCES.values() for name in re.findall(r"TUNABLES\.(\w+)", text)}
    assert used == {each.name for each in fields(Tunables)}


def test_no_other_module_of_the_worker_has_a_constant_that_is_a_time_or_a_count():
    number = re.compile(r"^_?[A-Z][A-Z_]*(?:: \w+)? = [\d.]+", re.MULTILINE)
    found = {path.name: names for path, text in SOURCES.items() if (names := number.findall(text))}
    assert found == {"watchdog.py": ["_FRAMES = 5"], "supervisor.py": ["STDERR = 2"]}


def test_they_cannot_be_changed_by_mistake():
    with pytest.raises(FrozenInstanceError):
        TUNABLES.settle_at_most = 1
