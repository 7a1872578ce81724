"""The project that the tests run in. The database is embedded unless DUEBOX_TEST_DATABASE_URL names another.

Processes that a test starts find the test's own database through DUEBOX_TEST_NAME.
"""

from __future__ import annotations

import json
import os

from tests.database import databases

SECRET_KEY = "not a secret: tests only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "duebox",
    "duebox.dashboard",
    "tests.app",
    "tests.vet",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
DATABASES = databases(os.environ)
ROOT_URLCONF = "tests.app.urls"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
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
STATIC_URL = "static/"
# Most tests are about what happens to events, whatever those are called; tests/contracts declares its own.
# Most of them also emit without a change of their own, so no transaction is needed.
DUEBOX = {
    "UNDECLARED": "allow",
    "OUTSIDE_TRANSACTION": "allow",
    **json.loads(os.environ.get("DUEBOX_TEST_SETTINGS", "{}")),
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {
        "duebox": {"handlers": ["stderr"], "level": "INFO", "propagate": True},
        # One line for each delivery would fill the pipes of processes whose output nobody reads.
        "duebox.worker.deliveries": {"level": "WARNING"},
    },
}
if os.environ.get("DUEBOX_TEST_LOGGING") == "none":
    LOGGING = {}
