from __future__ import annotations

import pytest

from duebox.conf import NAMES, Settings, conf, mistakes


def test_without_a_setting_everything_has_a_default(settings):
    settings.DUEBOX = {}
    assert conf() == Settings()
    assert mistakes() == []


def test_a_given_value_wins_over_the_default(settings):
    settings.DUEBOX = {"THREADS": 9, "POLL_SECONDS": 2}
    assert (conf().THREADS, conf().POLL_SECONDS, conf().BATCH_SIZE) == (9, 2, Settings().BATCH_SIZE)
    assert mistakes() == []


def test_an_unknown_key_is_a_mistake_with_the_nearest_known_one_as_hint(settings):
    settings.DUEBOX = {"THREAD": 9, "poll_seconds": 1}
    assert mistakes() == [
        ("DUEBOX has an unknown key 'THREAD'.", "Did you mean 'THREADS'?"),
        ("DUEBOX has an unknown key 'poll_seconds'.", "Did you mean 'POLL_SECONDS'?"),
    ]


def test_an_unknown_key_that_resembles_none_lists_them_all(settings):
    settings.DUEBOX = {"XYZZY": 1}
    assert mistakes()[0][1] == f"Known keys: {', '.join(NAMES)}."


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"THREADS": "8"}, "It must be a int; the default is 4."),
        ({"THREADS": True}, "It must be a int; the default is 4."),
        ({"THREADS": 0}, "It must be above 0; the default is 4."),
        ({"POLL_SECONDS": "1"}, "It must be a number; the default is 1.0."),
        ({"POLL_SECONDS": -1}, "It must be above 0; the default is 1.0."),
        ({"LISTEN": 1}, "It must be a bool; the default is True."),
        ({"DATABASE": None}, "It must be a str; the default is 'default'."),
        ({"TRUSTED_PROXIES": -1}, "It must be 0 or more: how many proxies of yours."),
        ({"TRUST_TRACEPARENT": 1}, "It must be a bool; the default is False."),
        ({"AUDIT_YEARS": 0}, "It must be above 0; the default is 7."),
        ({"MODE": "outline"}, "It must be one of worker, inline."),
    ],
)
def test_a_bad_value_is_a_mistake_with_what_it_must_be(settings, given, hint):
    settings.DUEBOX = given
    ((name, value),) = given.items()
    assert mistakes() == [(f"DUEBOX[{name!r}] is {value!r}.", hint)]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"AUDIT_KEY": b"hush"}, "DUEBOX['AUDIT_KEY'] is a bytes.", "It must be a str; the default is ''."),
        (
            {"AUDIT_KEY_FALLBACKS": "hush"},
            "DUEBOX['AUDIT_KEY_FALLBACKS'] is a str.",
            "It must be a list; the default is [].",
        ),
    ],
)
def test_a_bad_value_that_is_secret_is_not_quoted(settings, given, message, hint):
    settings.DUEBOX = given
    assert mistakes() == [(message, hint)]


@pytest.mark.parametrize("given", [["THREADS"], None, "worker"])
def test_a_setting_that_is_no_dict_is_a_mistake_and_leaves_the_defaults(settings, given):
    settings.DUEBOX = given
    assert mistakes() == [(f"DUEBOX is {given!r}.", "DUEBOX must be a dict, such as DUEBOX = {'THREADS': 8}.")]
    assert conf() == Settings()
