"""DATABASE_URL names the PostgreSQL to use; without it an embedded one starts in `.duebox/clinic`."""

from __future__ import annotations

import os
from pathlib import Path

from examples.clinic.database import database

BASE_DIR = Path(__file__).resolve().parent
REPOSITORY = BASE_DIR.parents[1]
FOLDER = Path(os.environ.get("CLINIC_FOLDER", REPOSITORY / ".duebox" / "clinic"))
OUTBOX = FOLDER / "outbox"

SECRET_KEY = "not a secret: an example"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "examples.clinic.urls"
INSTALLED_APPS = ["duebox", "examples.clinic", "examples.clinic.organizations"]
# Nobody logs in here and no cookie is set, so there is nothing that CSRF protection would protect.
MIDDLEWARE = [
    "duebox.middleware.CorrelationMiddleware",
    "django.middleware.common.CommonMiddleware",
    "examples.clinic.visitor.VisitorMiddleware",
    "examples.clinic.refusals.RefusalMiddleware",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
DATABASES = {
    "default": {
        **database(os.environ.get("DATABASE_URL"), FOLDER / "postgres"),
        # One transaction per request: the rows and the events of a view are committed together or not at all.
        "ATOMIC_REQUESTS": True,
    }
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
