from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.core import mail
from django.db import connection, connections

from tests.support import connection_params

ALLOWED = "SELECT current_setting('duebox.audit_allows', true)"


@pytest.mark.django_db(transaction=True)
def test_in_a_test_run_each_session_may_empty_the_tables():
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute(ALLOWED)
        assert cursor.fetchone() == ("truncate",)


@pytest.mark.django_db(transaction=True)
def test_a_process_that_keeps_its_mails_in_memory_is_no_test_run():
    """Its backend makes mail.outbox, which the test environment makes too."""
    assert hasattr(mail, "outbox")
    assert in_a_process("mail.get_connection(); assert hasattr(mail, 'outbox')") == "None"
    assert in_a_process("import django.test; mail.outbox = []; settings.ALLOWED_HOSTS = ['testserver']") == "None"


@pytest.mark.django_db(transaction=True)
def test_a_process_that_sets_up_the_test_environment_is_one():
    assert in_a_process("from django.test.utils import setup_test_environment as s; s()") == "truncate"


@pytest.mark.django_db(transaction=True)
def test_a_test_run_that_is_over_is_none():
    assert in_a_process("import django.test.utils as u; u.setup_test_environment(); u.teardown_test_environment()") == (
        "None"
    )


def in_a_process(first):
    """What a session of another process may do, which does something first."""
    program = f"""
import django
django.setup()
from django.conf import settings
from django.core import mail
from django.db import connection
settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
connection.settings_dict.update({settings_of_this_database()!r})
{first}
with connection.cursor() as cursor:
    cursor.execute({ALLOWED!r})
    print(cursor.fetchone()[0])
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def settings_of_this_database():
    entry = connections["default"].settings_dict
    assert connection_params()["dbname"] == entry["NAME"]
    return {name: str(entry[name]) for name in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
