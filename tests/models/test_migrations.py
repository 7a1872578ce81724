from __future__ import annotations

import os
import subprocess
import sys

SETTINGS = """
INSTALLED_APPS = ["duebox"]
SECRET_KEY = "tests only"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
SILENCED_SYSTEM_CHECKS = ["duebox.E003"]
"""


def test_another_kind_of_database_of_the_project_can_be_migrated_along(tmp_path):
    (tmp_path / "legacy_settings.py").write_text(SETTINGS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--settings", "legacy_settings"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Applying duebox.0002_emit... OK" in done.stdout
