from __future__ import annotations

import csv
import io
import json

import pytest

import duebox
from duebox.audit_log.archive import COLUMNS, SEAL, csv_lines, json_lines
from duebox.audit_log.seal import seal_all
from duebox.models import AuditEntry
from tests.audit_log.support import entries

pytestmark = pytest.mark.django_db


def test_every_column_is_exported():
    assert [field.attname for field in AuditEntry._meta.concrete_fields] == list(COLUMNS)


def test_lines_of_json_hold_everything():
    entry = duebox.audit("member.removed", ("member", "é"), after={"role": "admin"}, actor="ann", organization="acme")
    seal_all("default")
    [line] = json_lines(entries())
    assert line.endswith("}\n")
    assert "é" in line
    found = json.loads(line)
    assert found["changes"] == {"role": [None, "admin"]}
    assert (found["hash"], found["recorded_at"]) == (entries()[0].seal.hash.hex(), entry.recorded_at.isoformat())
    assert found["sequence"] == 1


def test_csv_has_a_head_and_json_in_its_cells():
    duebox.audit("member.removed", ("member", 5), after={"role": 'a "quoted", text\nwith lines'})
    [row] = csv.DictReader(io.StringIO("".join(csv_lines(entries()))))
    assert list(row) == [*COLUMNS, *SEAL]
    assert json.loads(row["changes"]) == {"role": [None, 'a "quoted", text\nwith lines']}
    assert (row["entity_id"], row["sequence"]) == ("5", "")


@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_a_spreadsheet_gets_no_formula(sign):
    duebox.audit("member.removed", ("member", f"{sign}cmd|' /C calc'!A0"), actor=f"{sign}1")
    [row] = csv.DictReader(io.StringIO("".join(csv_lines(entries()))))
    assert row["entity_id"] == f"'{sign}cmd|' /C calc'!A0"
    assert json.loads(row["actor"]) == {"type": "user", "id": f"{sign}1"}
    assert row["impersonator"] == ""


@pytest.mark.parametrize("separator", [";", "|", "; ", ';"'])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@"])
def test_a_spreadsheet_that_splits_elsewhere_gets_no_formula(separator, sign):
    text = f"1{separator}{sign}HYPERLINK(1)"
    duebox.audit("member.removed", ("member", text), after={"name": text, "n": -5, text: 1}, metadata={"a": text})
    lines = "".join(csv_lines(entries()))
    for split in csv.reader(io.StringIO(lines), delimiter=separator[0]):
        assert [cell for cell in split if cell.strip('" ').startswith(sign)] == []
    [row] = csv.DictReader(io.StringIO(lines))
    assert row["entity_id"] == f"1{separator}'{sign}HYPERLINK(1)"
    assert json.loads(row["changes"]) == {"name": [None, text], "n": [None, -5], text: [None, 1]}
    assert json.loads(row["metadata"]) == {"a": text}


def test_every_cell_is_quoted():
    duebox.audit("member.removed", ("member", 5))
    for line in csv_lines(entries()):
        assert line.count('"') == 2 * len([*COLUMNS, *SEAL])


def test_what_would_steer_a_terminal_is_escaped_and_not_lost():
    text = "a\x9b31m\x7f\u2028b"
    duebox.audit("member.removed", ("member", 5), after={"name": text})
    for line in (*json_lines(entries()), *csv_lines(entries())):
        assert line.rstrip("\r\n").isprintable()
    [line] = json_lines(entries())
    assert json.loads(line)["changes"] == {"name": [None, text]}
    [row] = csv.DictReader(io.StringIO("".join(csv_lines(entries()))))
    assert json.loads(row["changes"]) == {"name": [None, text]}


def test_no_entries_make_a_head_and_nothing_else():
    assert list(json_lines([])) == []
    assert list(csv_lines([])) == [",".join(f'"{name}"' for name in [*COLUMNS, *SEAL]) + "\r\n"]
