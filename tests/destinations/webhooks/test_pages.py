"""The how-to page about sending: the blocks that need its settings run here, in order, with such settings."""

from __future__ import annotations

import socket

import pytest

from duebox.models import WebhookEndpoint
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "webhooks.md"


def resolved(host, port, **kwargs):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.mark.django_db
def test_the_examples_about_endpoints_run(configure):
    hooks = configure(allow_private=["hooks.example.com", "new.example.com"], timeout=1.0)
    object.__setattr__(hooks.guard, "resolver", resolved)
    found = [block for block in blocks(PAGE) if block.language == "python" and "settings above" in block.rest]
    assert len(found) == 5
    namespace = {}
    for block in found:
        exec(compile("\n" * block.line + block.text, str(PAGE), "exec", dont_inherit=True), namespace)
    assert namespace["tried"].error.startswith("hooks.example.com cannot be reached")
    assert WebhookEndpoint.objects.get().host == "new.example.com"
