from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    # Instead of the folder of this file, where `import redis` would find the tests of that name.
    sys.path[:1] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "src")]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    execute_from_command_line(sys.argv)
