"""Names and errors from elsewhere, and a payload of 50 MB, in what the commands print."""

from __future__ import annotations

import json
import re

import pytest
from django.core.management.base import CommandError

from tests.hostile import ACCEPTED, FAKE, HOSTILE, LONG, SETTINGS, Scene, huge

pytestmark = pytest.mark.django_db
MOST = 300_000
"""Characters that a command prints for people."""
UNSEEN = re.compile("[\r\t\x1b\x07\u202e\u2028\x85]")


@pytest.fixture(autouse=True)
def _settings(settings):
    settings.DUEBOX = SETTINGS


@pytest.fixture
def printed(manage):
    """What a command prints; its error too, where it has one."""

    def run(*words: str) -> str:
        try:
            return manage("duebox", *words)
        except CommandError as error:
            return f"CommandError: {error}"

    return run


def commands(scene):
    entity = f"shop.order:{scene.event.aggregate_id}"
    found = [
        (verb, word)
        for verb in ("show", "explain")
        for word in (str(scene.event.id), entity, scene.schedule.key, scene.event.correlation_id)
    ]
    return [
        *found, *((*each, "--payload") for each in found if each[0] == "show"),
        ("show", "--as", "delivery", str(scene.delivery.id)), ("explain", "--as", "delivery", str(scene.delivery.id)),
        ("show", scene.text), ("explain", scene.text), ("status",), ("schedules", "list"),
        ("schedules", "pause", scene.text, "--dry-run"), ("schedules", "list", "--about", entity), ("preview",),
        ("deliveries", "list"), ("deliveries", "show", str(scene.delivery.id)), ("deliveries", "groups"),
        ("deliveries", "list", "--about", entity), ("deliveries", "retry", "--state", "dead", "--dry-run"),
        ("deliveries", "list", "--handler", scene.text), ("endpoints", "list"), ("audit", "list"),
        ("destinations", "list"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [ACCEPTED, HOSTILE, LONG], ids=["accepted", "hostile", "long"])
def test_no_text_writes_lines_or_controls_of_its_own(printed, on, text):
    faults = []
    for words in commands(Scene(on, text)):
        said = printed(*words)
        if not 0 < len(said) < MOST:
            faults.append((words, "prints", len(said)))
        if found := UNSEEN.search(said):
            faults.append((words, "control", said[max(0, found.start() - 60) : found.end() + 20]))
        if any(line.startswith(FAKE) for line in said.split("\n")):
            faults.append((words, "line", said[-500:]))
    assert faults == []


@pytest.mark.parametrize("text", [ACCEPTED, HOSTILE, LONG], ids=["accepted", "hostile", "long"])
def test_as_json_each_object_is_one_line(printed, on, text):
    faults = []
    for words in commands(Scene(on, text)):
        said = printed(*words, "--json")
        told, _, error = said.partition("CommandError: ")
        try:
            objects = [json.loads(line) for line in told.split("\n") if line]
        except ValueError:
            objects = []
            faults.append((words, "no JSON", told[:300]))
        if not (objects or error) and words[0] not in ("audit", "preview", "destinations"):
            faults.append((words, "nothing", ""))
        if found := UNSEEN.search(said):
            faults.append((words, "control", said[max(0, found.start() - 60) : found.end() + 20]))
        if any(line.startswith(FAKE) for line in error.split("\n")):
            faults.append((words, "line", error[-500:]))
    assert faults == []


@pytest.mark.soak
def test_of_a_payload_of_50_mb_people_see_the_beginning_and_programs_all_of_it(printed, on):
    data = huge()
    scene = Scene(on, ACCEPTED, data)
    for words in commands(scene):
        said = printed(*words)
        assert len(said) < MOST, (words, len(said))
        if "--payload" in words or words[:2] == ("deliveries", "show"):
            assert "cut after 100,000 characters" in said, words
    assert len(printed("deliveries", "list", "--json")) < 10_000, "a list has no payloads"
    shown = json.loads(printed("deliveries", "show", str(scene.delivery.id), "--json"))
    assert shown["data"] == data
