"""Migrations: permissions only."""
