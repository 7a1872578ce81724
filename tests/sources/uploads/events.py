from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import duebox


@duebox.event("file.stored")
class FileStored:
    name: str


@duebox.event("file.indexed")
class FileIndexed:
    name: str


@duebox.event("file.deleted")
class FileDeleted:
    name: str


@duebox.event("file.scan_requested")
class FileScanRequested:
    name: str


@duebox.event("file.measured")
class FileMeasured:
    file: UUID
    price: Decimal
    measured_at: datetime
    day: date
    note: str | None = None
