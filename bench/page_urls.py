from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/duebox/", include("duebox.dashboard.urls")),
    path("admin/", admin.site.urls),
]
