from __future__ import annotations

import pytest

from duebox.conf import NAMES, Settings, conf, mistakes

NEW_KEY = (
    "It must be a text of at least 32 characters; make one with: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
MAIL = "It must be True, False or a list of addresses, such as ['ops@example.com']."
REDIS = "Write it as redis://user:password@host:6379/0, with rediss:// for TLS, or as unix:///path/to/redis.sock."


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
        ({"MODE": "outline"}, "It must be one of worker, inline, celery."),
        ({"POLL_SECONDS": float("nan")}, "It must be above 0; the default is 1.0."),
        ({"LEASE_SECONDS": float("inf")}, "It must be above 0; the default is 10.0."),
        ({"DEAD_LETTER_MAIL": ["ops@example.com", 5]}, MAIL),
        ({"DEAD_LETTER_MAIL": "ops@example.com"}, MAIL),
        ({"DEAD_LETTER_MAIL": 1}, MAIL),
        ({"DEAD_LETTER_MAIL": ["ops"]}, MAIL),
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
        (
            {"AUDIT_KEY_FALLBACKS": ["hush", b"hush"]},
            "DUEBOX['AUDIT_KEY_FALLBACKS'][1] is a bytes.",
            "It must be a text, as AUDIT_KEY is.",
        ),
        ({"WEBHOOK_KEYS": ["k" * 32, "hush"]}, "DUEBOX['WEBHOOK_KEYS'][1] is a text of 4 characters.", NEW_KEY),
        ({"WEBHOOK_KEYS": [b"k" * 32]}, "DUEBOX['WEBHOOK_KEYS'][0] is a bytes.", NEW_KEY),
        ({"REDIS_URL": "foo"}, "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.", REDIS),
        (
            {"REDIS_URL": "http://hush@cache:6379/0"},
            "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.",
            REDIS,
        ),
        (
            {"REDIS_URL": "redis://:hush@cache:port/0"},
            "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.",
            REDIS,
        ),
        ({"REDIS_URL": "redis://[cache"}, "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.", REDIS),
        ({"REDIS_URL": "unix://"}, "DUEBOX['REDIS_URL'] is a text that is not the URL of a Redis.", REDIS),
    ],
)
def test_a_bad_value_that_is_secret_is_not_quoted(settings, given, message, hint):
    settings.DUEBOX = given
    assert mistakes() == [(message, hint)]


@pytest.mark.parametrize(
    "url",
    ["redis://localhost:6379/0", "redis://cache", "redis://", "rediss://user:pass@cache:6380/1?ssl_cert_reqs=none",
     "unix:///run/redis.sock?db=1"],
)  # fmt: skip
def test_whatever_the_driver_takes_is_the_url_of_a_redis(settings, url):
    settings.DUEBOX = {"REDIS_URL": url}
    assert mistakes() == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"APP": 5}, "DUEBOX['CELERY']['APP'] is 5."),
        ({"QUEUE": None}, "DUEBOX['CELERY']['QUEUE'] is None."),
    ],
)
def test_what_is_said_about_celery_are_texts(settings, given, message):
    settings.DUEBOX = {"CELERY": given}
    assert [said for said, _ in mistakes()] == [message]


@pytest.mark.parametrize("given", [["THREADS"], None, "worker"])
def test_a_setting_that_is_no_dict_is_a_mistake_and_leaves_the_defaults(settings, given):
    settings.DUEBOX = given
    assert mistakes() == [(f"DUEBOX is {given!r}.", "DUEBOX must be a dict, such as DUEBOX = {'THREADS': 8}.")]
    assert conf() == Settings()


@pytest.mark.parametrize("given", [True, False, [], ["ops@example.com"], ["Ops <ops@example.com>", "root@localhost"]])
def test_dead_letters_are_mailed_to_the_administrators_or_to_addresses(settings, given):
    settings.ADMINS = [("Ann", "ann@example.com")]
    settings.DUEBOX = {"DEAD_LETTER_MAIL": given}
    assert mistakes() == []
