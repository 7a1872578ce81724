from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager

import pytest
from django.db import connection

import duebox
from duebox.exceptions import NotReady
from duebox.integrations import background_worker
from duebox.models import Delivery, Worker
from tests.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard(on):
    events = []
    on("a.b", name="it")(lambda event: events.append(event.data["number"]))
    return events


def test_a_worker_delivers_while_the_block_lasts(heard):
    with background_worker.running(threads=1) as worker:
        assert Worker.objects.get().id == worker.lease.id
        duebox.emit("a.b", {"number": 1})
        eventually(lambda: heard == [1])
    assert not Worker.objects.exists()
    assert [thread for thread in threading.enumerate() if thread.name == "duebox-worker"] == []
    duebox.emit("a.b", {"number": 2})
    assert Delivery.objects.count() == 1


def test_an_async_block_lets_the_event_loop_go_on(heard):
    async def program():
        async with background_worker.running(threads=1):
            await duebox.aemit("a.b", {"number": 1})
            while not heard:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(program(), 10))
    assert heard == [1]
    assert not Worker.objects.exists()


def test_a_fastapi_app_serves_requests_and_delivers(heard):
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")

    @asynccontextmanager
    async def lifespan(app):
        async with background_worker.running(threads=1):
            yield

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/tell/{number}")
    async def tell(number: int):
        fact = await duebox.aemit("a.b", {"number": number})
        return {"id": str(fact.id)}

    with testclient.TestClient(app) as client:
        assert client.post("/tell/7").status_code == 200
        eventually(lambda: heard == [7])
    assert not Worker.objects.exists()


@contextmanager
def without(table):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO hidden")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE hidden RENAME TO {table}")


def test_an_error_at_the_start_is_raised_at_once():
    with without("duebox_worker"), pytest.raises(NotReady, match=r"run: manage.py migrate duebox"):
        background_worker.running().__enter__()


def test_an_error_that_ends_the_worker_is_logged_at_once_and_raised_at_the_end(caplog, heard):
    block = background_worker.running()
    block.__enter__()
    duebox.emit("a.b", {"number": 1})
    eventually(lambda: heard == [1] and not Delivery.objects.exists())
    with without("duebox_delivery"):
        eventually(lambda: "the background worker ended" in caplog.text)
    with pytest.raises(NotReady, match=r"run: manage.py migrate duebox"):
        block.__exit__(None, None, None)
    assert not Worker.objects.exists()


def test_an_error_of_the_block_passes_and_the_worker_is_stopped():
    with pytest.raises(KeyError), background_worker.running():
        raise KeyError("mine")
    assert not Worker.objects.exists()


def test_a_worker_without_its_database_does_not_keep_the_program_from_starting(monkeypatch):
    monkeypatch.setattr(background_worker, "START_SECONDS", 0.2)
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    with background_worker.running() as worker:
        assert not worker.lease.id


def test_mistaken_options_are_refused_where_they_are_made():
    with pytest.raises(TypeError, match="thread"), background_worker.running(thread=1):
        pass
