from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connections

from duebox import embedded
from duebox.embedded import Embedded
from tests.crash.stage import Processes


@pytest.fixture
def own_server(transactional_db: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server for this test alone, which may restart it; `default` points at it meanwhile."""
    server = embedded.start(tmp_path_factory.mktemp("postgres"))
    entry = connections["default"].settings_dict
    before = dict(entry)
    connections["default"].close()
    entry.update(server.database("crash"))
    call_command("migrate", verbosity=0, run_syncdb=True)
    yield server
    connections["default"].close()
    entry.update(before)
    server.stop()


@pytest.fixture
def processes(transactional_db: None) -> Iterator[Processes]:
    started = Processes()
    yield started
    started.end()
