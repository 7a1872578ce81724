"""The zone database: which one is used, what it is called, and what it refuses."""

from __future__ import annotations

import ast
import sys
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import pytest
import tzdata

from duebox.when import UnknownZone, clock_changes, disagreements, next_after, once, resolve, zones
from duebox.when.timetable import Timetable

OLD = Path(__file__).parents[1] / "vectors" / "zones" / "2025b"
VANCOUVER = datetime(2026, 11, 15, 9)


def test_the_python_package_is_the_source_and_its_release_is_known():
    assert zones.current().source == "tzdata"
    assert zones.current().release == tzdata.IANA_VERSION


def test_every_name_of_the_database_can_be_read():
    for name in zones.current().names:
        assert resolve(datetime(2026, 6, 15, 12), name)


def test_an_older_release_gives_the_older_instant():
    with zones.using(zones.from_folder(OLD, release="2025b")) as old:
        assert old.release == "2025b"
        assert resolve(VANCOUVER, "America/Vancouver")[0].instant == datetime(2026, 11, 15, 17, tzinfo=UTC)
    assert resolve(VANCOUVER, "America/Vancouver")[0].instant == datetime(2026, 11, 15, 16, tzinfo=UTC)


def test_the_key_of_an_occurrence_does_not_depend_on_the_release():
    table = Timetable(rule=once(VANCOUVER), zone="America/Vancouver")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    new = next_after(table, start)
    with zones.using(zones.from_folder(OLD, release="2025b")):
        old = next_after(table, start)
    assert old.key == new.key
    assert old.instant != new.instant


def test_a_fingerprint_changes_with_the_rules_of_its_zone_only():
    old, new = zones.from_folder(OLD), zones.current()
    assert old.fingerprint("America/Vancouver") != new.fingerprint("America/Vancouver")
    assert new.fingerprint("America/Vancouver") == zones.from_tzdata().fingerprint("America/Vancouver")


def test_databases_that_disagree_are_told_zone_by_zone():
    old, span = zones.from_folder(OLD), (datetime(2026, 6, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC))
    found = disagreements(old, zones.current(), *span)
    assert {"America/Vancouver", "America/Havana", "Africa/Casablanca", "Europe/Chisinau"} <= set(found)
    assert "America/Bogota" not in found
    assert disagreements(zones.current(), zones.from_tzdata(), *span) == []


def test_the_next_clock_changes_are_known_to_the_second():
    found = clock_changes("Australia/Lord_Howe", datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert [one.instant for one in found] == [
        datetime(2026, 4, 4, 15, tzinfo=UTC),
        datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    ]
    assert found[0].before - found[0].after == timedelta(minutes=30)


def test_the_system_copy_can_be_asked_for():
    try:
        system = zones.from_system()
    except zones.WhenError:
        pytest.skip("this system has no zone files")
    assert system.source == "system"
    assert "Europe/London" in system.names
    assert not [name for name in system.names if name.startswith(("posix/", "right/"))]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("europe/london", "Europe/London"),
        ("Europe/Londn", "Europe/London"),
        ("America/New York", "America/New_York"),
        ("London", "Europe/London"),
        ("US/Pacfic", "US/Pacific"),
    ],
)
def test_a_misspelt_zone_is_refused_with_the_right_one(wrong, right):
    with pytest.raises(UnknownZone, match=f"did you mean .*{right}"):
        resolve(VANCOUVER, wrong)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "Mars/Olympus_Mons", "GMT+25", "/etc/localtime", None, 5])
def test_what_is_no_zone_is_refused(name):
    with pytest.raises(UnknownZone):
        zones.current().zone(name)


def test_the_package_imports_only_the_standard_library_two_others_and_the_exceptions():
    allowed = {*sys.stdlib_module_names, "dateutil", "cronsim"}
    for file in Path(zones.__file__).parent.rglob("*.py"):
        for name in _imported(file):
            own = name.startswith("duebox.when") or name == "duebox.exceptions"
            assert own or name.split(".")[0] in allowed, f"{file.name} imports {name}"


def _imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_a_zone_file_that_is_replaced_under_a_running_process_is_read_once_for_rules_and_fingerprint(tmp_path):
    source = resources.files("tzdata").joinpath("zoneinfo")
    for name in ("Paris", "Berlin"):
        (tmp_path / "Europe").mkdir(exist_ok=True)
        (tmp_path / "Europe" / name).write_bytes(source.joinpath("Europe", name).read_bytes())
    database = zones.from_folder(tmp_path, release="old")
    offset = database.zone("Europe/Paris").utcoffset(datetime(2026, 7, 1))
    before = zones.from_folder(tmp_path, release="old").fingerprint("Europe/Paris")

    (tmp_path / "Europe" / "Paris").write_bytes(source.joinpath("Asia", "Tokyo").read_bytes())

    assert database.zone("Europe/Paris").utcoffset(datetime(2026, 7, 1)) == offset
    assert database.fingerprint("Europe/Paris") == before
    assert zones.from_folder(tmp_path, release="new").fingerprint("Europe/Paris") != before
