from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from tests.app import origins, views

urlpatterns = [
    path("admin/duebox/", include("duebox.dashboard.urls")),
    path("admin/", admin.site.urls),
    path("open", views.open_account),
    path("aopen", views.aopen_account),
    path("aopen-in-transaction", views.aopen_account_in_transaction),
    path("tell", origins.tell),
    path("atell", origins.atell),
    path("fail", origins.fail),
    path("stream", origins.stream),
    path("astream", origins.astream),
]
