"""A second service on the same database, in FastAPI and SQLAlchemy: it takes payments.

The payment and its event are in one transaction of SQLAlchemy. A worker in the lifespan of the app runs the sweep over
tasks that are due soon. `make demo` starts it; by hand:

    uvicorn --port 8001 examples.clinic.billing:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import django
from fastapi import FastAPI
from fastapi.responses import RedirectResponse
from sqlalchemy import URL, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.clinic.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from duebox.integrations.background_worker import running  # noqa: E402
from duebox.sqlalchemy import emit  # noqa: E402
from examples.clinic.events import PaymentReceived  # noqa: E402

SWEEPS = "duebox.sweep"
CLINIC = os.environ.get("CLINIC_ADDRESS", "http://127.0.0.1:8000")


class Base(DeclarativeBase):
    pass


class Payment(Base):
    __tablename__ = "billing_payment"

    id: Mapped[int] = mapped_column(primary_key=True)
    reference: Mapped[str]
    amount: Mapped[Decimal]


def _url() -> URL:
    """The database of the clinic."""
    entry = settings.DATABASES["default"]
    return URL.create(
        "postgresql+psycopg",
        username=entry["USER"] or None,
        password=entry.get("PASSWORD") or None,
        database=entry["NAME"],
        query={"host": entry["HOST"], "port": entry["PORT"]} if entry["HOST"] else {},
    )


engine = create_engine(_url())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    Base.metadata.create_all(engine)
    async with running(threads=1, only=[SWEEPS]):
        yield
    engine.dispose()


app = FastAPI(title="Billing", lifespan=lifespan)


@app.post("/payments")
def pay(reference: str, amount: Decimal, refuse: bool = False) -> RedirectResponse:
    """Store a payment and its event. With `refuse` the bank says no after both were written: neither is left."""
    with Session(engine) as session:
        session.add(Payment(reference=reference, amount=amount))
        session.flush()
        received = PaymentReceived(reference=reference, amount=amount)
        # By the clock of the clinic, which in the demo is not that of the database.
        emit(session, received, about=("appointment", reference), occurred_at=timezone.now())
        if refuse:
            session.rollback()
        else:
            session.commit()
    return RedirectResponse(f"{CLINIC}/?appointment={reference}", status_code=303)
