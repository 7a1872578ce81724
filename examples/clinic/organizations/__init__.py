"""Practices that use the clinic's software: who works there, what they pay for, where the invoice goes.

The map: `events` is the catalogue, `views` change rows and emit in the same transaction, `handlers` react.
"""
