from __future__ import annotations

from django.urls import path

from examples.clinic.organizations.views import accounts, members, subscriptions

urlpatterns = [
    path("organizations/", accounts.sign_up),
    path("organizations/<int:pk>/", accounts.show),
    path("organizations/<int:pk>/billing/", accounts.update_billing),
    path("organizations/<int:pk>/members/", members.invite),
    path("organizations/<int:pk>/subscription/", subscriptions.activate),
    path("organizations/<int:pk>/subscription/update/", subscriptions.update),
    path("organizations/<int:pk>/subscription/update/v1/", subscriptions.update_as_before),
    path("organizations/<int:pk>/subscription/cancel/", subscriptions.cancel),
    path("members/<int:pk>/join/", members.join),
    path("members/<int:pk>/role/", members.change_role),
    path("members/<int:pk>/remove/", members.remove),
    path("users/<int:pk>/history/", members.history),
    path("users/<int:pk>/phone/", members.change_phone),
]
