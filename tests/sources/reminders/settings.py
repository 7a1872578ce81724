from __future__ import annotations

import json
import os

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "reminders", "reminders.vet", "duebox"]
DATABASES = {"default": json.loads(os.environ["SOURCE_DATABASE"])}
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
DUEBOX = {"REDIS_URL": "redis://127.0.0.1:6379/9", "DEAD_LETTER_MAIL": ["operator@example.com"]}
