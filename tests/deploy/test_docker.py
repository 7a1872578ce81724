"""The Docker image and the compose file, read and compared with the code: there is no Docker engine here."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.deploy.commands import DEPLOY, STOP_SECONDS, parsed

FOLDER = DEPLOY / "docker"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (FOLDER / "Dockerfile").read_text()


def seconds(text):
    return int(text.removesuffix("s"))


def test_it_starts_a_database_the_app_and_workers_after_the_migrations():
    assert {*SERVICES} == {"postgres", "migrate", "web", "worker"}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("web", "worker"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_the_worker_runs_a_command_that_there_is_and_has_time_to_stop():
    assert parsed(SERVICES["worker"]["command"])["verb"] == "worker"
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= STOP_SECONDS


def test_the_health_check_is_a_command_that_there_is():
    check = SERVICES["worker"]["healthcheck"]["test"]
    assert check[0] == "CMD"
    assert parsed(check[1:])["verb"] == "health"


def test_the_migrations_run_the_command_of_django():
    assert SERVICES["migrate"]["command"] == ["python", "manage.py", "migrate", "--noinput"]


@pytest.mark.parametrize("name", ["migrate", "web", "worker"])
def test_no_shell_stands_between_docker_and_the_process(name):
    assert isinstance(SERVICES[name]["command"], list)


def test_the_image_runs_a_worker_without_a_shell_and_not_as_root():
    [command] = re.findall(r"^CMD (.+)$", DOCKERFILE, flags=re.MULTILINE)
    assert parsed(json.loads(command))["verb"] == "worker"
    assert re.findall(r"^USER (\w+)$", DOCKERFILE, flags=re.MULTILINE) == ["app"]


def test_the_image_is_built_from_the_folder_that_has_the_dockerfile_below_it():
    build = SERVICES["worker"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).resolve() == FOLDER / "Dockerfile"


def test_no_password_is_written_down():
    secrets = [SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"]]
    secrets += [SERVICES[name]["environment"]["DATABASE_PASSWORD"] for name in ("migrate", "web", "worker")]
    assert {secret.partition(":")[0] for secret in secrets} == {"${DATABASE_PASSWORD"}


def test_app_and_database_agree_on_names():
    app, server = SERVICES["worker"]["environment"], SERVICES["postgres"]["environment"]
    assert (app["DATABASE_NAME"], app["DATABASE_USER"]) == (server["POSTGRES_DB"], server["POSTGRES_USER"])
    assert app["DATABASE_HOST"] in SERVICES
