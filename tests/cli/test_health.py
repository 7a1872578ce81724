from __future__ import annotations

import json
import socket

import pytest
from django.core.management.base import CommandError

from duebox.models import Worker
from tests.support import a_lease, expire

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_with_a_fresh_heartbeat_is_alive(manage):
    a_lease()
    assert manage("duebox", "health").startswith(f"{socket.gethostname()}:")


def test_the_heartbeat_is_told_as_json(manage):
    a_lease()
    told = json.loads(manage("duebox", "health", "--json"))
    assert told["alive"] is True
    [worker] = told["workers"]
    assert worker["mode"] == "poll"
    assert worker["beat_seconds_ago"] < 30 < worker["seconds_left"]


def test_without_a_worker_it_fails_and_says_how_to_start_one(manage):
    with pytest.raises(CommandError, match=r"No worker of host '.*' has a lease; start one: manage.py duebox worker"):
        manage("duebox", "health")


def test_a_heart_that_stopped_is_a_failure(manage):
    expire(a_lease())
    with pytest.raises(CommandError, match=r"has a fresh heartbeat; the last was that of .* s ago"):
        manage("duebox", "health", "--json")


def test_the_workers_of_other_hosts_do_not_count(manage):
    # Not even one whose name begins alike.
    Worker.objects.filter(id=a_lease()).update(name=f"{socket.gethostname()}-2:41")
    with pytest.raises(CommandError, match="has a lease"):
        manage("duebox", "health")
    assert manage("duebox", "health", "--host", f"{socket.gethostname()}-2")


def test_one_living_worker_is_enough(manage):
    expire(a_lease())
    a_lease()
    assert len(manage("duebox", "health").splitlines()) == 1


@pytest.mark.parametrize(("options", "code"), [((), 1), (("--patient",), 0), (("--patient", "--json"), 0)])
def test_a_database_that_is_away_is_a_failure_unless_told_to_be_patient(start, nowhere, options, code):
    done = start("duebox", "health", *options, **nowhere)
    out, err = done.communicate(timeout=120)
    assert done.returncode == code, err
    assert "Traceback" not in err
    assert ("database" in err) is (code == 1)
    assert bool(out) is (code == 0)
