"""Webhooks: signed as Standard Webhooks 1.0.0 says, and sent to public addresses only.

keys         secrets and keys: new ones, and their text read
signing      sign what is sent
verifying    verify what was received
asymmetric   the same with a pair of keys; needs `cryptography`
urls         what a URL must be like
addresses    which addresses are public
openings     which others an operator opens
guard        a URL → addresses to connect to, or a refusal
"""

from __future__ import annotations
