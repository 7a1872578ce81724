"""Emitting where Duebox cannot work yet: each answer names the repair."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connections, transaction
from django.test import modify_settings

import duebox
from duebox.exceptions import NotReady
from duebox.testing import drain

ROOT = Path(__file__).parent.parent


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src:.", **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_importing_and_subscribing_need_no_settings():
    done = python("import duebox\n@duebox.on('a.b')\ndef f(event): pass")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_emit_without_any_project_says_that_django_is_not_set_up():
    done = python("import duebox; duebox.emit('a.b')", DJANGO_SETTINGS_MODULE="")
    assert "duebox.exceptions.NotReady: Django is not set up yet (" in done.stderr
    assert "call django.setup() first" in done.stderr


def test_an_emit_before_setup_says_that_django_is_not_set_up():
    code = "from django.conf import settings; settings.configure(); import duebox; duebox.emit('a.b')"
    assert "Django is not set up yet (Apps aren't loaded yet.)" in python(code).stderr


@modify_settings(INSTALLED_APPS={"remove": "duebox"})
def test_an_emit_in_a_project_without_the_app_says_to_install_it():
    with pytest.raises(NotReady, match="add 'duebox' to INSTALLED_APPS and migrate"):
        duebox.emit("a.b")


@pytest.mark.django_db
@pytest.mark.parametrize("act", [lambda: duebox.emit("a.b"), drain], ids=["emit", "drain"])
def test_missing_tables_are_answered_with_the_migrate_command(act):
    with connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE duebox_event, duebox_delivery, duebox_worker CASCADE")
    repair = r"lacks the Duebox tables .*run: manage.py migrate duebox --database default"
    with pytest.raises(NotReady, match=repair), transaction.atomic():
        act()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_migrate_command_names_the_alias_that_lacks_the_tables():
    with connections["other"].cursor() as cursor:
        cursor.execute("ALTER TABLE duebox_event DROP COLUMN metadata CASCADE")
    with pytest.raises(NotReady, match="migrate duebox --database other"), transaction.atomic(using="other"):
        duebox.emit("a.b", using="other")
