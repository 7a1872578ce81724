"""The files of other projects are those that were taken from the registry."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from duebox import dashboard

VENDOR = Path(dashboard.__file__).parent / "static" / "duebox_dashboard" / "vendor"
# axe-core 4.14.0 from the npm registry, MPL-2.0: for the tests only, not in the wheel.
AXE = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_vendored_file_has_the_hash_that_is_written_down():
    text = (VENDOR / "VERSIONS.txt").read_text()
    written = dict(re.findall(r"^(\S+\.(?:js|css)) .* ([0-9a-f]{64})$", text, re.MULTILINE))
    assert written == {path.name: hash_of(path) for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}


def test_axe_is_the_one_that_was_taken():
    assert hash_of(Path(__file__).parent / "axe.min.js") == AXE
