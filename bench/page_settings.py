"""The settings of `bench.pages`: as the others, with the admin, the dashboard and destinations."""

from __future__ import annotations

from bench.settings import *  # noqa: F403
from bench.settings import DUEBOX, INSTALLED_APPS

INSTALLED_APPS = [
    *INSTALLED_APPS,
    "duebox.dashboard",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
ROOT_URLCONF = "bench.page_urls"
ALLOWED_HOSTS = ["testserver"]
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
DUEBOX = {
    **DUEBOX,
    "DESTINATIONS": {
        "bus": {"BACKEND": "duebox.destinations.redis_streams.RedisStreams", "OPTIONS": {"stream": "events"}},
        "webhooks": {"BACKEND": "duebox.destinations.webhooks.Webhooks"},
    },
}
