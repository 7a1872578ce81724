"""`duebox sql`: statements for a database that is not ours to change."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

_FUNCTION = re.compile(r"[a-zA-Z0-9:_$-]{1,256}")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")


def function_name(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the ARN or the name of a Lambda function")
    return text


def region_name(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a region, such as eu-central-1")
    return text


def add_sql_options(parser: CommandParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="aurora-trigger")
    text = "A trigger on Aurora or RDS that wakes a Lambda function when deliveries are stored."
    trigger = kinds.add_parser("aurora-trigger", help=text, description=text, allow_abbrev=False)
    trigger.add_argument(
        "--function", type=function_name, required=True, metavar="ARN", help="the Lambda function to invoke"
    )
    trigger.add_argument("--region", type=region_name, help="its region, if neither its ARN nor the database's says it")


def sql(command: BaseCommand, options: dict[str, Any]) -> None:
    """Print SQL to run where Duebox does not: a trigger that wakes a Lambda function."""
    region = f"'{options['region']}'::text" if options["region"] else "NULL::text"
    command.stdout.write(aurora_trigger(options["function"], region), ending="")


def aurora_trigger(function: str, region: str) -> str:
    template = files("duebox.entrypoints").joinpath("templates", "aurora_trigger.sql.txt").read_text()
    return template.replace("{function}", function).replace("{region}", region)
