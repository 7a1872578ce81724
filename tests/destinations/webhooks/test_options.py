"""Options of webhooks that cannot be meant are refused when the destination is made, which `manage.py check` does."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks

from duebox.destinations.webhooks import Webhooks
from duebox.destinations.webhooks.receiver import receive
from duebox.exceptions import DueboxError, InvalidSecret

NAN = float("nan")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"disable_after_days": "x"}, "disable_after_days is 'x'; it must be a number."),
        ({"disable_after_days": NAN}, "disable_after_days is nan; it must be a number."),
        ({"disable_after_days": -1}, "disable_after_days is -1; it must be a number of days, or 0 for never."),
        ({"ports": "8080"}, "ports is '8080'; it must be a list of numbers."),
        ({"ports": 8080}, "ports is 8080; it must be a list of numbers."),
        ({"ports": ["8080"]}, "ports contains '8080'; it must contain whole numbers from 1 to 65535."),
        ({"ports": [0]}, "ports contains 0; it must contain whole numbers from 1 to 65535."),
        ({"ports": [True]}, "ports contains True; it must contain whole numbers from 1 to 65535."),
        ({"refused": 404}, "refused is 404; it must be a list of statuses."),
        ({"refused": ["404"]}, "refused contains '404'; it must contain whole numbers from 100 to 599."),
        ({"refused": [40]}, "refused contains 40; it must contain whole numbers from 100 to 599."),
        ({"allow_private": "127.0.0.1"}, "allow_private is '127.0.0.1'; it must be a list of networks, addresses and"),
        ({"allow_private": 5}, "allow_private is 5; it must be a list of networks, addresses and hosts."),
        ({"allow_private": [5]}, "allow_private contains 5, which is not a network"),
        ({"http": "no"}, "http is 'no'; it must be True or False."),
        ({"ca_file": 5}, "ca_file is 5; name a PEM file."),
        ({"timeout": NAN}, "timeout is nan; it must be a number."),
        ({"timeout": 0}, "timeout is 0; it must be a number above 0."),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_with_the_repair(settings, options, said):
    with pytest.raises(DueboxError) as refused:
        Webhooks("hooks", **options)
    assert said in str(refused.value)
    entry = {"BACKEND": "duebox.destinations.webhooks.Webhooks", "OPTIONS": options}
    settings.DUEBOX = {"UNDECLARED": "allow", "DESTINATIONS": {"hooks": entry}}
    [found] = run_checks(tags=["duebox"], databases=[])
    [name] = options
    assert found.id == "duebox.E010"
    assert found.msg.startswith(
        (f"DUEBOX['DESTINATIONS']['hooks']: {said}", f"DUEBOX['DESTINATIONS']['hooks']: {name} is")
    )


def test_options_are_lists_of_any_kind():
    made = Webhooks(
        "hooks", ports=(8080,), refused={404}, allow_private=["10.1.0.0/16"], disable_after_days=0, http=True
    )
    assert (made.guard.ports, made.refused, made.disable_after_days) == ((8080,), {404}, 0)
    made.close()


def test_a_file_is_named_by_a_text_or_a_path(tmp_path):
    with pytest.raises(DueboxError, match="cannot be read"):
        Webhooks("hooks", ca_file=tmp_path / "nothing.pem")


@pytest.mark.parametrize("secrets", [[], None, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ["whsec_zz"], [""], [None]])
def test_a_receiver_refuses_secrets_that_are_none_before_the_first_request(secrets):
    with pytest.raises(InvalidSecret):
        receive(secrets=secrets, source="acme")


def test_secrets_that_depend_on_the_request_are_not_asked_for_before_there_is_one():
    receive(secrets=lambda request: 1 / 0, source="acme")
