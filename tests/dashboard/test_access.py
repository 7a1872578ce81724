"""Who may see a page, and what is sent with it."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from duebox.dashboard.page import PAGES

pytestmark = pytest.mark.django_db
OVERVIEW = "/admin/duebox/"


def test_somebody_who_is_not_signed_in_is_sent_to_the_login_of_the_admin(client):
    response = client.get(f"{OVERVIEW}?a=b")
    assert response.status_code == 302
    assert response.url == "/admin/login/?next=/admin/duebox/%3Fa%3Db"


def test_somebody_who_is_no_member_of_staff_is_sent_to_the_login(client_with):
    assert client_with("view_events", staff=False).get(OVERVIEW).status_code == 302


@pytest.mark.parametrize(("name", "permission"), [(name, permission) for name, _, permission in PAGES])
def test_staff_without_the_permission_see_no_page_and_the_name_of_the_permission(client_with, name, permission):
    response = client_with().get(reverse(f"duebox_dashboard:{name}"))
    assert response.status_code == 403
    assert f"duebox_dashboard.{permission}" in response.content.decode()


def test_those_who_may_only_read_see_every_page_but_the_audit_log(reader):
    answers = {name: reader.get(reverse(f"duebox_dashboard:{name}")).status_code for name, *_ in PAGES}
    assert answers == {name: 403 if name == "audit" else 200 for name, *_ in PAGES}


def test_the_navigation_shows_only_what_a_person_may_see(reader, operator):
    assert "Audit</a>" not in reader.get(OVERVIEW).content.decode()
    assert "Audit</a>" in operator.get(OVERVIEW).content.decode()


def test_every_answer_forbids_inline_scripts_and_other_hosts(reader, client):
    for response in (reader.get(OVERVIEW), client.get(OVERVIEW)):
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert "no-store" in response.headers["Cache-Control"]


def test_static_files_on_another_host_are_allowed_by_the_policy(reader, settings):
    settings.STATIC_URL = "https://static.example/of/"
    policy = reader.get(OVERVIEW).headers["Content-Security-Policy"]
    assert "script-src 'self' https://static.example; style-src 'self' https://static.example;" in policy


def test_no_page_has_an_inline_script_or_style(operator):
    for name, *_ in PAGES:
        page = operator.get(reverse(f"duebox_dashboard:{name}")).content.decode()
        assert " style=" not in page
        assert "<style" not in page
        assert page.count("<script") == page.count("<script src=")
        assert " onclick=" not in page


def test_an_action_needs_the_csrf_token(operator):
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post(OVERVIEW).status_code == 403


def test_a_page_that_is_asked_for_again_is_only_its_live_part_and_nothing_if_it_is_the_same(reader):
    first = reader.get("/admin/duebox/events/", headers={"HX-Request": "true"})
    assert "<html" not in first.content.decode()
    tag = first.headers["ETag"]
    again = reader.get("/admin/duebox/events/", headers={"HX-Request": "true", "If-None-Match": tag})
    assert again.status_code == 204


def test_a_page_that_is_asked_for_again_after_signing_out_is_loaded_anew(client):
    response = client.get(OVERVIEW, headers={"HX-Request": "true"})
    assert response.headers["HX-Refresh"] == "true"
