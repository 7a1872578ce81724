"""What the README of the clinic says about its tests, done as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from psycopg.conninfo import make_conninfo

from tests.support import connection_params

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "examples" / "clinic" / "README.md"


def test_the_tests_of_the_clinic_run_as_printed():
    [line] = re.findall(
        r"^ +\.venv/bin/python (\S+/manage\.py test.*?)(?:  +#.*)?$", README.read_text(), flags=re.MULTILINE
    )
    # A database of its own: Django makes test_<name>, and drops it.
    database = make_conninfo(**{**connection_params(), "dbname": f"readme_{os.getpid()}"})
    settled = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, *line.split()],
        cwd=REPOSITORY,
        env={**settled, "DATABASE_URL": database},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Ran \d{2,} tests", done.stderr, flags=re.MULTILINE), done.stderr
