"""DATABASE_URL names the PostgreSQL to use; without it an embedded one starts in `.duebox/clinic`."""

from __future__ import annotations

import os
from pathlib import Path

from examples.clinic import aws
from examples.clinic.database import database

BASE_DIR = Path(__file__).resolve().parent
REPOSITORY = BASE_DIR.parents[1]
FOLDER = Path(os.environ.get("CLINIC_FOLDER", REPOSITORY / ".duebox" / "clinic"))
OUTBOX = FOLDER / "outbox"

# The address of the second service, `billing`, if it runs.
BILLING_ADDRESS = os.environ.get("CLINIC_BILLING", "")
# The port of the program that receives webhooks, `receiver`, if it runs, and the folder where it stores them.
RECEIVER_PORT = int(os.environ.get("CLINIC_RECEIVER", 0))
RECEIVED = FOLDER / "received"
# The address of a local AWS server, if one runs: see `aws`.
AWS_ADDRESS = os.environ.get("CLINIC_AWS", "")

SECRET_KEY = "not a secret: an example"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "examples.clinic.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "duebox",
    "duebox.dashboard",
    "examples.clinic",
    "examples.clinic.organizations",
]
# The pages of the clinic need no login. In the place of a CSRF token, VisitorMiddleware refuses what other sites send.
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "examples.clinic.visitor.VisitorMiddleware",
    "duebox.middleware.CorrelationMiddleware",
    "examples.clinic.refusals.RefusalMiddleware",
]
STATIC_URL = "/static/"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        **database(os.environ.get("DATABASE_URL"), FOLDER / "postgres"),
        # One transaction per request: the rows and the events of a view are committed together or not at all.
        "ATOMIC_REQUESTS": True,
    }
}
# Webhooks go to public addresses over TLS, unless the options allow more: here one port of this machine.
WEBHOOKS = {
    "BACKEND": "duebox.destinations.webhooks.Webhooks",
    "OPTIONS": {"http": True, "ports": [RECEIVER_PORT], "allow_private": ["127.0.0.1"], "timeout": 5},
}
DUEBOX = {
    "PRODUCER": "clinic",
    # Who reads the events need not know in which app a model is.
    "AGGREGATES": {
        "clinic.Appointment": "appointment",
        "clinic.Doctor": "doctor",
        "clinic.Insurer": "insurer",
        "clinic.Invoice": "invoice",
        "clinic.Patient": "patient",
        "clinic.Task": "task",
        "organizations.Member": "member",
        "organizations.Organization": "organization",
        "organizations.Subscription": "subscription",
        "organizations.User": "user",
    },
    "DESTINATIONS": {
        **({"webhooks": WEBHOOKS} if RECEIVER_PORT else {}),
        **(aws.destinations(AWS_ADDRESS) if AWS_ADDRESS else {}),
    },
    "ROUTES": aws.ROUTES if AWS_ADDRESS else [],
    # The ids of events have the real time in them. By a clock that is months ahead (see `timelapse`) all are old.
    **({"RETENTION_EVENTS_DAYS": None, "RETENTION_ATTEMPTS_DAYS": None} if "CLINIC_TIME_LAPSE" in os.environ else {}),
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {
        "duebox": {"handlers": ["stderr"], "level": "INFO"},
        "django.request": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
    },
}
