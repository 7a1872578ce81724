"""Django's shell imports all models by their names, and the app that is listed first wins. So a model of Duebox with a
name that a project is likely to have hides the project's, and whoever counts its rows reads those of Duebox."""

from __future__ import annotations

from django.apps import apps
from django.core.management.commands.shell import Command

from duebox import models

TOO_GENERAL = {
    # Had once, and renamed: a shop has receipts, a car park gates, a hiking site trails, an API endpoints.
    "Receipt", "Gate", "Trail", "Endpoint",
    # What projects send, and to whom.
    "Message", "Mail", "Email", "Notification", "Webhook", "Subscriber", "Subscription", "Destination", "Route",
    "Topic",
    # What they plan and do.
    "Task", "Job", "Run", "Queue", "Plan", "Sweep", "Reminder", "Appointment", "Timer", "Rule", "Batch", "Step",
    "Workflow",
    # What they keep a record of.
    "Log", "Entry", "Record", "History", "Audit", "Change", "Note", "Result", "Status", "State", "Error", "Head",
    # Whose it is.
    "Account", "Actor", "Organization", "Project", "Tenant", "User", "Workspace",
    # What Duebox's own words are, too; see KEPT.
    "Event", "Delivery", "Schedule", "Attempt", "Worker",
}  # fmt: skip
# The five words that all of Duebox is explained with. Projects may have them too: theirs win in the shell if their app
# is listed before Duebox, as the README and the tutorial do. No other general name may join them.
KEPT = {"Event", "Delivery", "Schedule", "Attempt", "Worker"}


def test_no_model_has_a_name_that_a_project_is_likely_to_have():
    names = {model.__name__ for model in apps.get_app_config("duebox").get_models()}
    assert names == set(models.__all__)
    assert names & TOO_GENERAL == KEPT


def test_the_shell_imports_no_general_name_from_duebox():
    imported = [path.rpartition(".") for path in Command().get_auto_imports()]
    names = {name for module, _, name in imported if module.split(".")[0] == "duebox"}
    assert "WebhookReceipt" in names
    assert names & TOO_GENERAL == KEPT


def test_models_of_a_project_are_its_own_in_the_shell_also_if_duebox_is_listed_first(settings):
    assert settings.INSTALLED_APPS[0] == "duebox"
    found = Command().get_namespace()
    theirs = [model for model in apps.get_models() if model._meta.app_label not in ("duebox", "duebox_dashboard")]
    assert "Task" in {model.__name__ for model in theirs}
    assert [model for model in theirs if found[model.__name__].__module__.startswith("duebox.")] == []
