"""A process that only emits, or only verifies, does without urllib3 and cryptography."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
for name in ("urllib3", "cryptography"):
    sys.modules[name] = None
import django
django.setup()
from duebox.destinations.registry import make
from duebox.destinations.webhooks import Webhooks
from duebox.destinations.webhooks import receiver
from duebox.destinations.webhooks import signatures
from duebox.management.commands.duebox import GROUPS
from duebox.events.subscribers import receivers_of
print([each.name for each in receivers_of("public.order.paid")])
try:
    make("hooks", {"BACKEND": "duebox.destinations.webhooks.Webhooks"})
except Exception as error:
    print(type(error).__name__, error)
"""


def test_it_says_what_to_install_when_it_is_to_deliver():
    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks"}
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DUEBOX_TEST_SETTINGS": json.dumps({"DESTINATIONS": {"hooks": entry}}),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    known, refused = done.stdout.splitlines()
    assert known == "['fan-out:hooks']"
    assert refused.startswith("InvalidDestination")
    assert "pip install 'duebox[webhooks]'" in refused


def test_the_package_has_no_other_names():
    from duebox.destinations import webhooks

    with pytest.raises(AttributeError, match="Nonsense"):
        webhooks.Nonsense  # noqa: B018
