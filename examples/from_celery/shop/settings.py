"""Settings of both projects. What takes long in a shop can be made short by an environment variable."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from duebox import embedded
from examples.clinic.database import from_url

SECRET_KEY = "not a secret: an example"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
FOLDER = Path(__file__).resolve().parents[3] / ".duebox" / "from_celery"

REPORT_CRON = os.environ.get("SHOP_REPORT_CRON", "0 9 * * 1-5")
REPORT_ZONE = "Europe/Paris"
STOCK_SECONDS = int(os.environ.get("SHOP_STOCK_SECONDS", "30"))
SALE_AT = datetime.fromisoformat(os.environ.get("SHOP_SALE_AT", "2030-07-01T09:00:00+02:00"))
PAY_WITHIN_SECONDS = int(os.environ.get("SHOP_PAY_WITHIN_SECONDS", "3600"))
REVIEW_SECONDS = int(os.environ.get("SHOP_REVIEW_SECONDS", "60"))


def databases(name: str) -> dict[str, object]:
    """DATABASE_URL names the PostgreSQL to use; without it an embedded one starts."""
    url = os.environ.get("DATABASE_URL")
    return {"default": from_url(url) if url else embedded.database(FOLDER, name)}
