from __future__ import annotations

import os
from pathlib import Path

from duebox import embedded

FOLDER = Path(os.environ.get("DUEBOX_BENCH_FOLDER", Path(__file__).parent.parent / ".duebox" / "bench"))

SECRET_KEY = "not a secret: benchmarks only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["duebox", "bench"]
# The server of bench-sized machines; fsync and synchronous_commit stay on.
DATABASES = {"default": embedded.start(FOLDER, settings={"shared_buffers": "1GB"}).database("bench")}
# What is measured is the engine; what it costs to hold an event to its declared type is measured by bench.contracts.
DUEBOX: dict[str, object] = {"UNDECLARED": "allow", "OUTSIDE_TRANSACTION": "allow"}
if os.environ.get("DUEBOX_BENCH_OBSERVED") == "on":
    DUEBOX |= {"METRICS": ["prometheus"], "LOG_FORMAT": "json"}
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"nowhere": {"class": "logging.FileHandler", "filename": os.devnull}},
        "loggers": {
            "duebox": {"handlers": ["nowhere"], "level": "INFO"},
            "duebox.worker.deliveries": {"level": "WARNING"},  # a line for each delivery, off by default
        },
    }
if port := os.environ.get("DUEBOX_BENCH_RECEIVER"):
    options = {"http": True, "ports": [int(port)], "allow_private": ["127.0.0.1"]}
    DUEBOX["DESTINATIONS"] = {"webhooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks", "OPTIONS": options}}
