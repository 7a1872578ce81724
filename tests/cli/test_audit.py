from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management.base import CommandError

import duebox
from duebox.models import AuditEntry
from duebox.testing import travel
from tests.audit_log.support import entries, fill, sql, write_some

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.fixture
def clock():
    with travel(START) as traveller:
        yield traveller


@pytest.fixture
def log(clock):
    """Three entries, a day apart."""
    duebox.audit("member.invited", ("member", 5), actor="ann", organization="acme", after={"role": "guest"})
    clock.by(timedelta(days=1))
    duebox.audit("member.removed", ("member", 5), actor="bob", impersonator="ann", organization="acme")
    clock.by(timedelta(days=1))
    duebox.audit("club.closed", ("club", 1), reason="rain")


def listed(manage, *words):
    return [json.loads(line)["action"] for line in manage("duebox", "audit", "list", "--json", *words).splitlines()]


def test_entries_are_listed_newest_first(manage, log):
    lines = manage("duebox", "audit", "list").splitlines()
    assert lines[0].split() == ["id", "recorded,", "utc", "action", "about", "by", "organization", "changes"]
    assert lines[1].split()[1:] == ["2026-01-03", "09:00", "club.closed", "club:1"]
    assert lines[2].split()[1:] == [
        "2026-01-02",
        "09:00",
        "member.removed",
        "member:5",
        "user:ann",
        "as",
        "user:bob",
        "acme",
    ]
    assert lines[3].endswith('user:ann              acme          role: null -> "guest"')


def test_what_would_steer_a_terminal_is_escaped(manage):
    """An old value may be a stranger's, and a column somebody's who has all rights."""
    duebox.audit("member.invited", ("member", 5), organization="acme", after={"na\x9bme": "\x9b31m\u202ered\x7f"})
    manage("duebox", "audit", "seal")
    sql(
        "UPDATE duebox_audit SET actor = jsonb_build_object('id', 'eve' || chr(27) || '[2J'), "
        "organization = 'ac' || chr(155) || 'me'"
    )
    lines = manage("duebox", "audit", "list").splitlines()
    assert all(line.isprintable() for line in lines)
    assert lines[1].endswith(r'''eve\x1b[2J  ac\x9bme      na\x9bme: null -> "\x9b31m\u202ered\x7f"''')
    assert manage("duebox", "audit", "list", "--json").rstrip("\n").isprintable()
    with pytest.raises(CommandError) as complaint:
        manage("duebox", "audit", "verify")
    assert all(line.isprintable() for line in str(complaint.value).splitlines())


def test_no_entries_are_said_to_be_none(manage):
    assert manage("duebox", "audit", "list") == "No entries.\n"
    assert manage("duebox", "audit", "list", "--json") == ""


def test_a_long_list_is_cut_and_says_so(manage, log):
    lines = manage("duebox", "audit", "list", "--limit", "1").splitlines()
    assert (len(lines), lines[-1]) == (3, "Only the newest 1; --limit shows more.")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--about", "member:5"], ["member.removed", "member.invited"]),
        (["--actor", "ann"], ["member.removed", "member.invited"]),
        (["--actor", "bob"], ["member.removed"]),
        (["--organization", "acme", "--action", "member.invited"], ["member.invited"]),
        (["--organization", ""], ["club.closed"]),
        (["--since", "2026-01-02"], ["club.closed", "member.removed"]),
        (["--since", "2026-01-02", "--until", "2026-01-03T09:00+00:00"], ["member.removed"]),
        (["--correlation-id", "nothing"], []),
    ],
)
def test_the_list_can_be_filtered(manage, log, words, found):
    assert listed(manage, *words) == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--about", "member"], "'member' is not TYPE:ID, as in appointment:42"),
        (["--since", "yesterday"], "--since"),
        (["--limit", "0"], "'0' is not a whole number above 0"),
    ],
)
def test_a_filter_that_is_none_is_refused(manage, words, message):
    with pytest.raises(CommandError, match=message):
        manage("duebox", "audit", "list", *words)


def test_entries_are_exported_as_lines_of_json_oldest_first(manage, log):
    lines = [json.loads(line) for line in manage("duebox", "audit", "export").splitlines()]
    assert [line["action"] for line in lines] == ["member.invited", "member.removed", "club.closed"]
    assert lines[2]["metadata"] == {"reason": "rain"}


def test_entries_are_exported_to_a_file(manage, log, tmp_path):
    path = tmp_path / "log.csv"
    assert manage("duebox", "audit", "export", "--format", "csv", "--out", str(path), "--organization", "acme") == ""
    with path.open(newline="") as file:
        assert [row["entity_id"] for row in csv.DictReader(file)] == ["5", "5"]


def test_a_file_is_not_overwritten(manage, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("mine")
    with pytest.raises(CommandError, match=r"log.csv cannot be written \(File exists\); give another name"):
        manage("duebox", "audit", "export", "--out", str(path))
    assert path.read_text() == "mine"


def test_a_good_log_is_said_to_be_good(manage):
    assert manage("duebox", "audit", "verify") == "0 entries: as written.\n"
    fill(1)
    assert manage("duebox", "audit", "verify") == "1 entry: as written.\n"
    fill(4, "acme", "bolt")
    assert manage("duebox", "audit", "verify") == "5 entries: as written.\n"
    assert manage("duebox", "audit", "verify", "--organization", "bolt") == "2 entries: as written.\n"


def test_what_is_not_sealed_yet_is_said_and_can_be_sealed(manage):
    fill(1)
    write_some(2)
    assert manage("duebox", "audit", "verify") == "1 entry: as written. 2 entries not sealed yet.\n"
    assert manage("duebox", "audit", "seal") == "Sealed 2 entries.\n"
    assert manage("duebox", "audit", "seal", "--json") == '{"sealed": 0}\n'
    assert manage("duebox", "audit", "verify") == "3 entries: as written.\n"


def test_a_head_that_was_changed_is_accepted_only_when_asked(manage):
    fill(2)
    sql("UPDATE duebox_audit_head SET signature = ''")
    write_some(1)
    with pytest.raises(CommandError, match=r"then `manage\.py duebox audit seal --accept-head`"):
        manage("duebox", "audit", "seal")
    with pytest.raises(CommandError, match="--reason needs --accept-head"):
        manage("duebox", "audit", "seal", "--reason", "restored")
    assert manage("duebox", "audit", "seal", "--accept-head", "--reason", "restored") == "Sealed 2 entries.\n"
    said = AuditEntry.objects.doing("audit.head_accepted").get()
    assert (said.metadata["reason"], bool(said.actor)) == ("restored", True)
    with pytest.raises(CommandError, match="records that the head had been changed, and was accepted"):
        manage("duebox", "audit", "verify")


def test_a_bad_log_is_an_error_that_names_the_first_bad_entry(manage):
    fill(9, "acme", "bolt", "")
    second = entries()[1].id
    sql("UPDATE duebox_audit SET actor = '[]' WHERE organization = 'bolt'")
    sql("DELETE FROM duebox_audit_seal WHERE sequence = 6")
    with pytest.raises(CommandError) as complaint:
        manage("duebox", "audit", "verify")
    assert str(complaint.value).splitlines() == [
        "The audit log is not as it was written: 5 flaws.",
        f"  entry 2 (id {second}) is not as it was written",
    ]
    assert complaint.value.returncode == 1


def test_a_log_of_another_key_is_recognised(manage, settings):
    fill(3)
    settings.DUEBOX = {**settings.DUEBOX, "AUDIT_KEY": "another"}
    with pytest.raises(CommandError, match=r"was the log written with another AUDIT_KEY or SECRET_KEY\?"):
        manage("duebox", "audit", "verify")


def test_the_verdict_as_json_is_a_receipt_for_another_day(manage, tmp_path):
    fill(4, "acme", "bolt")
    told = manage("duebox", "audit", "verify", "--json")
    assert [json.loads(line)["entries"] for line in told.splitlines()] == [4]
    path = tmp_path / "receipts.jsonl"
    path.write_text(told)
    fill(2, "acme", "bolt")
    assert manage("duebox", "audit", "verify", "--against", str(path)).endswith("as written.\n")
    for table in ("", "_seal", "_head", "_writer", "_writer_sealed"):
        sql(f"DELETE FROM duebox_audit{table}")
    assert manage("duebox", "audit", "verify") == "0 entries: as written.\n"
    with pytest.raises(CommandError, match="entry 1 and all up to 4 are missing"):
        manage("duebox", "audit", "verify", "--against", str(path))


def test_receipts_that_cannot_be_read_are_an_error(manage, tmp_path):
    with pytest.raises(CommandError, match=r"cannot be read \(No such file or directory\)"):
        manage("duebox", "audit", "verify", "--against", str(tmp_path / "none"))
    (tmp_path / "bad").write_text("bad")
    with pytest.raises(CommandError, match="Line 1 is not a receipt"):
        manage("duebox", "audit", "verify", "--against", str(tmp_path / "bad"))


def test_only_the_latest_can_be_verified(manage, log):
    manage("duebox", "audit", "seal")
    told = manage("duebox", "audit", "verify", "--since", "2026-01-02")
    assert told == "2 entries: as written.\n"


def test_what_is_old_is_pruned_by_the_person_who_runs_the_command(manage, clock):
    fill(3, "acme", "")
    clock.by(timedelta(days=366))
    assert manage("duebox", "audit", "prune") == "Nothing is older than 7 years.\n"
    dry = manage("duebox", "audit", "prune", "--years", "1", "--dry-run")
    assert dry == "3 entries older than 1 year.\nDry run: nothing was changed.\n"
    assert len(entries()) == 3
    assert manage("duebox", "audit", "prune", "--years", "1") == "3 entries older than 1 year.\nRemoved.\n"
    assert [entry.action for entry in entries()] == ["audit.pruned"]
    assert all(entry.actor for entry in entries())
    manage("duebox", "audit", "seal")
    assert manage("duebox", "audit", "verify").endswith("as written.\n")


def test_the_pruning_as_json(manage, clock):
    fill(1)
    clock.by(timedelta(days=366))
    told = json.loads(manage("duebox", "audit", "prune", "--years", "1", "--json"))
    assert told == {"entries": 1, "flaw": None, "dry_run": False}


def test_what_is_wrong_is_not_pruned_and_is_an_error(manage, clock):
    fill(3)
    sql("UPDATE duebox_audit SET actor = '[]'")
    clock.by(timedelta(days=366))
    with pytest.raises(CommandError, match="Not pruned, because verification failed; run `duebox audit verify`"):
        manage("duebox", "audit", "prune", "--years", "1")
    assert AuditEntry.objects.count() == 3


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database_can_be_looked_at(manage, log):
    assert manage("duebox", "audit", "list", "--database", "other") == "No entries.\n"
    assert manage("duebox", "audit", "verify", "--database", "other").startswith("0 entries")
