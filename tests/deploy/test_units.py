"""The units for systemd, and the Procfile."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser

import pytest

from tests.deploy.commands import DEPLOY, STOP_SECONDS, parsed

UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]


def read(name):
    parser = RawConfigParser(strict=True)
    parser.optionxform = str
    parser.read_string((DEPLOY / "systemd" / name).read_text())
    return parser


def name_of(unit):
    return unit.name


def test_systemd_itself_finds_nothing_wrong_with_the_units(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on this machine; the values are checked by the tests beside this one")
    for unit in UNITS:
        text = unit.read_text().replace("/srv/shop/.venv/bin/python", sys.executable)
        (tmp_path / unit.name).write_text(text)
    copies = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run([analyze, "verify", "--man=no", *copies], capture_output=True, text=True)
    # Only of ours: what the machine's own units say is not judged.
    assert [line for line in done.stderr.splitlines() if "duebox" in line] == []


@pytest.mark.parametrize("unit", SERVICES, ids=name_of)
def test_a_service_has_time_to_stop(unit):
    service = read(unit.name)["Service"]
    assert service["KillSignal"] == "SIGTERM"
    assert service["KillMode"] == "mixed"  # the parent tells its children; two signals would end them at once
    assert float(service["TimeoutStopSec"]) >= STOP_SECONDS


@pytest.mark.parametrize("unit", SERVICES, ids=name_of)
def test_a_service_runs_as_nobody_special_and_cannot_write_to_the_system(unit):
    service = read(unit.name)["Service"]
    assert service["User"] not in {"", "root"}
    assert (service["NoNewPrivileges"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == (
        "yes", "strict", "",
    )  # fmt: skip


def test_the_services_run_commands_that_there_are():
    assert parsed(shlex.split(read("duebox-worker.service")["Service"]["ExecStart"]))["verb"] == "worker"
    assert parsed(shlex.split(read("duebox-once.service")["Service"]["ExecStart"]))["verb"] == "once"


def test_a_worker_is_started_again_and_a_round_by_its_timer():
    assert read("duebox-worker.service")["Service"]["Restart"] == "always"
    assert read("duebox-once.service")["Service"]["Type"] == "oneshot"
    assert read("duebox-once.timer")["Timer"]["OnCalendar"] == "minutely"


def test_the_secrets_are_in_a_file_of_their_own():
    for unit in SERVICES:
        service = read(unit.name)["Service"]
        assert service["EnvironmentFile"] == "/etc/duebox/environment"
        assert "Environment" not in service


def test_the_processes_of_the_procfile_are_commands_that_there_are():
    lines = dict(line.split(": ", 1) for line in (DEPLOY / "Procfile").read_text().splitlines())
    assert parsed(shlex.split(lines["worker"]))["verb"] == "worker"
    # Ten of thirty seconds, which is what platforms with a Procfile give, are left to exit.
    assert STOP_SECONDS - 5 <= 30
