"""Greetings at nine in the morning of wherever people are, found by a poll."""

from __future__ import annotations
