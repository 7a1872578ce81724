from __future__ import annotations

import json
import os

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "timesheets", "duebox"]
MIDDLEWARE = ["duebox.middleware.CorrelationMiddleware", *MIDDLEWARE]
ROOT_URLCONF = "timesheets.urls"
ALLOWED_HOSTS = ["testserver"]
DATABASES = {"default": json.loads(os.environ["SOURCE_DATABASE"])}
NAME = DATABASES["default"]["NAME"].replace("_", "-")
AWS = {"endpoint_url": os.environ["SOURCE_AWS"], "region": os.environ["AWS_DEFAULT_REGION"]}
LEDGER = f"{os.environ['SOURCE_AWS']}/123456789012/{NAME}-ledger.fifo"
PORT = int(os.environ["SOURCE_PORT"])

DUEBOX = {
    "PRODUCER": "timesheets.api",
    "LEASE_SECONDS": 3,
    "DESTINATIONS": {
        "bus": {"BACKEND": "duebox.destinations.aws.EventBridge", "OPTIONS": {"bus": NAME, **AWS}},
        "ledger": {"BACKEND": "duebox.destinations.aws.SQSFifo", "OPTIONS": {"queue_url": LEDGER, **AWS}},
        "printer": {"BACKEND": "timesheets.outside.Printer", "RATE": 20, "BURST": 1},
        "broken": {
            "BACKEND": "timesheets.outside.Broken",
            "RETRY": {"limit": 20, "first": 0.1, "factor": 1},
            "BREAKER": {"calls": 5, "pause": 60},
        },
        "webhooks": {
            "BACKEND": "duebox.destinations.webhooks.Webhooks",
            "OPTIONS": {"http": True, "ports": [PORT], "allow_private": ["127.0.0.1"]},
            "RETRY": {"delays": [0.2, 0.2, 0.2]},
        },
    },
    "ROUTES": [
        {"match": "public.*", "to": "bus"},
        {"match": "subscription.*", "to": "bus"},
        {"match": "*.created", "to": "bus"},
        {"match": "*.approved", "to": "bus"},
        {"match": "time_entry.*", "to": "ledger"},
        {"match": "page.printed", "to": "printer"},
        {"match": "page.lost", "to": "broken"},
    ],
}
