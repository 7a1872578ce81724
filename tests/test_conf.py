from __future__ import annotations

import pytest

from duebox.conf import NAMES, Settings, conf, mistakes

NEW_KEY = (
    "It must be a text of at least 32 characters; make one with: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
MAIL = "It must be True, False or a list of addresses, such as ['ops@example.com']."
METRICS = 'It must be a list of names, such as ["prometheus"], or a dict of names and options.'
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
        ({"TRUSTED_PROXIES": -1}, "It must be 0 or more: the number of your own proxies."),
        ({"TRUST_TRACEPARENT": 1}, "It must be a bool; the default is False."),
        ({"AUDIT_YEARS": 0}, "It must be above 0; the default is 7."),
        ({"MODE": "outline"}, "It must be one of worker, inline, celery."),
        ({"POLL_SECONDS": float("nan")}, "It must be above 0; the default is 1.0."),
        ({"LEASE_SECONDS": float("inf")}, "It must be above 0; the default is 10.0."),
        ({"DEAD_LETTER_MAIL": ["ops@example.com", 5]}, MAIL),
        ({"DEAD_LETTER_MAIL": "ops@example.com"}, MAIL),
        ({"DEAD_LETTER_MAIL": 1}, MAIL),
        ({"DEAD_LETTER_MAIL": ["ops"]}, MAIL),
        ({"LOG_FORMAT": "yaml"}, "It must be one of text, json."),
        ({"HEALTH_PORT": 70_000}, "It must be from 1 to 65535, or 0 for no port."),
        ({"METRICS": "prometheus"}, METRICS),
        ({"METRICS": [5]}, METRICS),
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


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"publish": {}}, "DUEBOX['SLO'] has an unknown key 'publish'.", "Did you mean 'publish_seconds'?"),
        (
            {"dead_letters": 5},
            "DUEBOX['SLO']['dead_letters'] is 5.",
            "It must be a dict with target and alert, or None",
        ),
        ({"dead_letters": {"max": 5}}, "DUEBOX['SLO']['dead_letters'] has ['max'].", "Known are target and alert."),
        ({"dead_letters": {"alert": "5"}}, "DUEBOX['SLO']['dead_letters']['alert'] is '5'.", "a number from 0 on"),
        ({"publish_seconds": {"target": 20}}, "has the target 20 and the alert 10.", "must not be below the target"),
        ({"publish_seconds": {"target": 0}}, "has the target 0 and the alert 10.", "seconds must be above 0"),
        ({"webhook_success": {"target": 90}}, "has the target 90 % and the alert 95 %.", "not be above the target"),
        ({"webhook_success": {"target": 100}}, "has the target 100 % and the alert 95 %.", "must be below 100"),
        ({"ignore": "order.paid"}, "DUEBOX['SLO']['ignore'] is 'order.paid'.", "It must be a list of event types"),
    ],
)
def test_an_objective_that_cannot_be_is_a_mistake(settings, given, message, hint):
    settings.DUEBOX = {"SLO": given}
    [(found, repair)] = mistakes()
    assert message in found
    assert hint in repair


def test_objectives_can_be_changed_and_switched_off(settings):
    settings.DUEBOX = {"SLO": {"publish_seconds": {"target": 1}, "webhook_success": None, "ignore": ["order.*"]}}
    assert mistakes() == []


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (["promethus"], "has 'promethus'.", "Did you mean 'prometheus'?"),
        (["graphite"], "has 'graphite'.", "Known are prometheus, opentelemetry, emf, statsd."),
        ({"prometheus": None}, "['prometheus'] is None.", "It must be a dict; known are no options."),
        ({"statsd": {"host": "a"}}, "['statsd'] has 'host'.", "Known are HOST, PORT, PREFIX, TAGS, SECONDS."),
        ({"statsd": {"PORT": "1"}}, "['statsd']['PORT'] is '1'.", "It must be a number; the default is 8125."),
        ({"statsd": {"PORT": 99_999}}, "['statsd']['PORT'] is 99999.", "It must be a whole number from 1 to 65535."),
        ({"statsd": {"PORT": 8125.5}}, "['statsd']['PORT'] is 8125.5.", "It must be a whole number from 1 to 65535."),
        ({"statsd": {"SECONDS": 0}}, "['statsd']['SECONDS'] is 0.", "It must be above 0; the default is 10."),
        ({"statsd": {"TAGS": "influx"}}, "['statsd']['TAGS'] is 'influx'.", "It must be one of datadog, none."),
    ],
)
def test_an_exporter_that_does_not_exist_or_has_a_wrong_option_is_a_mistake(settings, given, message, hint):
    settings.DUEBOX = {"METRICS": given}
    [(found, repair)] = mistakes()
    assert found.startswith("DUEBOX['METRICS']")
    assert found.endswith(message)
    assert repair == hint


def test_exporters_with_options_are_no_mistake(settings):
    settings.DUEBOX = {"METRICS": {"prometheus": {}, "statsd": {"HOST": "stats", "SECONDS": 2.5}, "emf": {"FILE": "a"}}}
    assert mistakes() == []


@pytest.mark.parametrize("value", [0, -1, True, "30", 1.5, 10**7])
def test_a_retention_that_is_no_number_of_days_is_a_mistake(settings, value):
    settings.DUEBOX = {"RETENTION_EVENTS_DAYS": value}
    hint = "It must be a number of days from 1 to 36,500, or None to remove nothing; the default is 30."
    assert mistakes() == [(f"DUEBOX['RETENTION_EVENTS_DAYS'] is {value!r}.", hint)]


def test_a_retention_of_none_keeps_everything(settings):
    settings.DUEBOX = {"RETENTION_EVENTS_DAYS": None}
    assert mistakes() == []
