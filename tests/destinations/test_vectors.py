"""The cases every build must satisfy: patterns, signatures and addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors import eventbridge_patterns, ssrf, webhooks
from tests.vectors.__main__ import KINDS, main

FOLDER = Path(ssrf.__file__).parent
ENGINE = Path(__file__).parent / "patterns" / "engine.json"


def content(kind):
    return json.loads((FOLDER / f"{kind}.json").read_text())


@pytest.mark.parametrize("case", content("eventbridge_patterns")["cases"], ids=lambda case: case["id"])
def test_a_pattern_is_understood_as_expected(case):
    assert eventbridge_patterns.failure(case) is None


def test_random_patterns_get_the_answers_that_the_engine_of_aws_gave():
    cases = json.loads(ENGINE.read_text())["cases"]
    assert [(case["id"], why) for case in cases if (why := eventbridge_patterns.failure(case))] == []
    assert {case["matches"] for case in cases} == {True, False, "invalid"}


@pytest.mark.parametrize("case", [*webhooks.cases(content("webhooks"))], ids=lambda case: case["id"])
def test_a_signature_is_made_and_judged_as_expected(case):
    assert webhooks.failure(case) is None


@pytest.mark.parametrize("case", [*ssrf.cases(content("ssrf"))], ids=lambda case: case["id"])
def test_an_address_a_host_or_a_url_is_judged_as_expected(case):
    assert ssrf.failure(case) is None


@pytest.mark.parametrize(("kind", "count"), [("eventbridge_patterns", 46), ("webhooks", 24), ("ssrf", 71)])
def test_the_runner_plays_all_sections_of_a_file(kind, count, capsys):
    assert main([kind, str(FOLDER / f"{kind}.json")]) == 0
    assert capsys.readouterr().out == f"{count} passed, 0 failed\n"


def _wrong(kind):
    """A file of the kind in which every case is wrong, and one section is unknown."""
    if kind == "eventbridge_patterns":
        cases = [{**case, "matches": "nonsense"} for case in content(kind)["cases"]]
        return {"cases": cases}, len(cases)
    found = content(kind)
    if kind == "ssrf":
        return {
            "ips": [{"ip": case["ip"], "allowed": not case["allowed"]} for case in found["ips"]],
            "deny_networks": ["8.8.8.0/24"],
            "host_spellings": [{"host": "0x08080808", "resolves_to": "127.0.0.1"}],
            "url_refuse": ["https://x.test/"],
            "tides": ["high"],
        }, len(found["ips"]) + 4
    old = {"headers": {**found["rotation"][0]["headers"], "webhook-signature": "v1,AAAA"}}
    return {
        "vectors": [{**case, "body": "another", "body_utf8_hex": b"another".hex()} for case in found["vectors"]],
        "rotation": [{**case, **old} for case in found["rotation"]],
        "asymmetric": [{**case, **old} for case in found["asymmetric"]],
        "negative": [
            {**case, "must": "reject" if "accept" in case["must"] else "accept"} for case in found["negative"]
        ],
        "ambiguity": {"signature": "v1,AAAA"},
        "tides": [{"id": "high"}],
    }, len(found["vectors"]) + len(found["negative"]) + 5


@pytest.mark.parametrize("kind", ["eventbridge_patterns", "webhooks", "ssrf"])
def test_the_runner_notices_what_is_wrong(kind, tmp_path, capsys):
    wrong, count = _wrong(kind)
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(wrong))
    assert main([kind, str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"0 passed, {count} failed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("{", "is not JSON"),
        ("{}", "holds no cases"),
        ("[]", "holds no cases"),
        ("3", "holds no cases"),
    ],
)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_file_without_cases_is_an_error_and_no_success(kind, text, problem, tmp_path, capsys):
    file = tmp_path / "cases.json"
    if text is not None:
        file.write_text(text)
    assert main([kind, str(file)]) == 2
    told = capsys.readouterr()
    assert (told.out, problem in told.err, str(file) in told.err) == ("", True, True)
