from __future__ import annotations

import json
import os

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "todos", "duebox"]
DATABASES = {"default": json.loads(os.environ["SOURCE_DATABASE"])}
if "SOURCE_NO_DATABASE" in os.environ:
    DATABASES["default"] |= {"HOST": "127.0.0.1", "PORT": "9"}
DUEBOX = {"LEASE_SECONDS": 3, "SHUTDOWN_SECONDS": 5}
