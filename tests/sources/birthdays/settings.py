from __future__ import annotations

import json
import os

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "birthdays", "duebox"]
DATABASES = {"default": json.loads(os.environ["SOURCE_DATABASE"])}
DUEBOX = {"LEASE_SECONDS": 3, "SHUTDOWN_SECONDS": 5}
