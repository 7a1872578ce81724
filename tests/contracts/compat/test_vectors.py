"""The cases every build must satisfy, and the runner that plays them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from duebox.contracts.compat import compare
from duebox.contracts.json_schema import closed
from tests.vectors import schema_compat
from tests.vectors.__main__ import main

FILE = Path(schema_compat.__file__).parent / "schema_compat.json"
CASES = json.loads(FILE.read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_case_comes_out_as_expected(case):
    assert schema_compat.failure(case) is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_warning_is_given_where_the_case_asks_for_one_and_nowhere_else(case):
    assert bool(compare(case["old_schema"], case["new_schema"]).warnings) == ("warn" in case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_every_witness_is_one_for_another_validator_too(case):
    old, new = case["old_schema"], case["new_schema"]
    verdict = compare(old, new)
    for writer, reader, breaks in ((old, new, verdict.backward), (new, old, verdict.forward)):
        for each in breaks:
            assert jsonschema.Draft202012Validator(closed(writer)).is_valid(each.witness)
            assert not jsonschema.Draft202012Validator(reader).is_valid(each.witness)


def test_the_runner_counts_and_names_failures(tmp_path, capsys):
    wrong = {**CASES[0], "id": "WRONG", "backward_compatible": False}
    broken = {**CASES[0], "id": "BROKEN", "old_schema": {"type": "text"}}
    silent = {**CASES[0], "id": "SILENT", "forward_compatible": None}
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"source": "here", "cases": [CASES[0], wrong, broken, silent]}))
    assert main(["schema_compat", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAILED WRONG: backward_compatible is True, expected False")
    assert lines[1].startswith("FAILED BROKEN: raised InvalidContract")
    assert lines[-1] == "2 passed, 2 failed"


def test_the_runner_is_content_with_the_file_it_ships_with(capsys):
    assert main(["schema_compat", str(FILE)]) == 0
    assert capsys.readouterr().out == f"{len(CASES)} passed, 0 failed\n"
