"""The package as it is published: its metadata, and an install into an empty environment."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.wheel import build, clean_environment, environment, uv

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Repository"]


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_all_addresses_of_the_project_are_in_its_repository():
    assert {url for url in PROJECT["urls"].values() if not url.startswith(REPOSITORY)} == set()


def test_the_repository_is_named_in_the_project_file_only():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").glob("**/*.md")]
    assert [page for page in pages if "_build" not in page.parts and REPOSITORY in page.read_text()] == []


@pytest.mark.soak
def test_links_of_the_description_are_absolute_and_lead_to_files_of_the_repository(wheel):
    text = metadata_of(wheel).get_payload(decode=True).decode()
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    ours = [link.removeprefix(REPOSITORY) for link in links if link.startswith(REPOSITORY)]
    paths = [re.sub(r"^/(blob|raw)/v[^/]+/", "", link) for link in ours]
    assert {"docs/index.md", "docs/images/dashboard/overview-light.png"} <= {*paths}
    assert [path for path in paths if not (ROOT / path.partition("#")[0]).exists()] == []
    assert f"{REPOSITORY}/raw/v{PROJECT['version']}/docs/images/dashboard/overview-light.png" in links


@pytest.mark.soak
def test_the_wheel_has_what_it_needs_and_no_tests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"duebox", "pytest_duebox.py"}
    assert "duebox/py.typed" in names
    assert any(name.endswith(".sql") for name in names)
    assert any(name.endswith(".html") for name in names)


@pytest.mark.soak
def test_the_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    _run([uv(), "build", "--quiet", "--sdist", "--out-dir", tmp_path, ROOT])
    [source] = tmp_path.glob("duebox-*.tar.gz")
    _run([uv(), "build", "--quiet", "--wheel", "--out-dir", tmp_path / "again", source])
    [again] = (tmp_path / "again").glob("duebox-*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


@pytest.mark.soak
def test_an_install_into_an_empty_environment_brings_no_more_than_it_needs(wheel, tmp_path):
    binaries = environment(tmp_path / "env", str(wheel))
    variables = clean_environment(binaries)
    found = subprocess.run(
        [uv(), "pip", "list", "--quiet", "--python", str(binaries / "python"), "--format", "freeze"],
        env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {line.partition("==")[0] for line in found.stdout.splitlines()}
    wanted = {
        "asgiref",
        "cronsim",
        "django",
        "duebox",
        "jsonschema-rs",
        "psycopg",
        "python-dateutil",
        "sqlparse",
        "tzdata",
    }
    assert names - wanted <= {"six", "typing-extensions", "packaging"}  # of python-dateutil, psycopg and others
    assert wanted <= names
    _run(
        [uv(), "pip", "install", "--quiet", "--python", binaries / "python", "psycopg[binary]"]
    )  # there may be no libpq
    told = subprocess.run(
        [binaries / "python", "-m", "duebox", "worker"], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert told.stderr.startswith("DJANGO_SETTINGS_MODULE is not set"), told.stderr


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
