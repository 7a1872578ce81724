"""A FastAPI application with SQLAlchemy that emits in the transaction of its session, with a worker inside."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import django

django.setup()

from fastapi import FastAPI, HTTPException
from sqlalchemy import URL, create_engine, text
from sqlalchemy.orm import Session

from duebox import sqlalchemy as outbox
from duebox.integrations.background_worker import running

ENTRY = json.loads(os.environ["SOURCE_DATABASE"])
PLACE = {"host": ENTRY["HOST"], "port": str(ENTRY["PORT"] or 5432)}
ADDRESS = URL.create("postgresql+psycopg", ENTRY["USER"] or None, ENTRY.get("PASSWORD") or None,
                     database=ENTRY["NAME"], query=PLACE)  # fmt: skip
engine = create_engine(ADDRESS)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with running(threads=1):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/tasks", status_code=201)
def add(title: str, fail: bool = False) -> dict[str, str]:
    with Session(engine) as session, session.begin():
        row = text("INSERT INTO todos_task (title, due_at) VALUES (:title, now() + '2 days')")
        session.execute(row, {"title": title})
        event = outbox.emit(session, "task.due_soon", {"title": title}, about=("task", title))
        if fail:
            raise HTTPException(409, "refused after all")
    return {"event": str(event)}
