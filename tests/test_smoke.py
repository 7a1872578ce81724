from __future__ import annotations

import pytest

import duebox
from duebox.testing import drain


@pytest.mark.django_db
def test_a_handler_receives_what_was_emitted(on):
    seen = []

    @on("member.invited", atomic=False)
    def greet(event):
        seen.append(event.data)

    duebox.emit("member.invited", {"role": "admin"})
    drain()
    assert seen == [{"role": "admin"}]
