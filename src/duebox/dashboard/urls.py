"""The URLs of the dashboard. Include them above those of the admin:

path("admin/duebox/", include("duebox.dashboard.urls")),
path("admin/", admin.site.urls),
"""

from __future__ import annotations

from django.urls import path

from duebox.dashboard import (
    audit,
    calendar,
    catalogue,
    dead_letters,
    destinations,
    events,
    explain,
    overview,
    plans,
    schedules,
    workers,
)

app_name = "duebox_dashboard"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("events/", events.events, name="events"),
    path("events/<uuid:id>/", events.event, name="event"),
    path("deliveries/<int:id>/<slug:verb>/", dead_letters.act_on_delivery, name="act_on_delivery"),
    path("explain/", explain.explain, name="explain"),
    path("dead-letters/", dead_letters.dead_letters, name="dead_letters"),
    path("dead-letters/<slug:id>/", dead_letters.group, name="group"),
    path("dead-letters/<slug:id>/<slug:verb>/", dead_letters.act_on_group, name="act_on_group"),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/preview/", schedules.preview, name="preview"),
    path("schedules/calendar/", calendar.calendar, name="calendar"),
    path("schedules/plans/", plans.plans, name="plans"),
    path("schedules/log/", plans.schedule_log, name="schedule_log"),
    path("schedules/<int:id>/", schedules.schedule, name="schedule"),
    path("schedules/<int:id>/<slug:verb>/", schedules.act, name="act_on_schedule"),
    path("destinations/", destinations.destinations, name="destinations"),
    path("destinations/endpoints/<uuid:id>/", destinations.endpoint, name="endpoint"),
    path("destinations/endpoints/<uuid:id>/test/", destinations.test_endpoint, name="test_endpoint"),
    path("destinations/endpoints/<uuid:id>/rotate/", destinations.rotate_secret, name="rotate_secret"),
    path("destinations/endpoints/<uuid:id>/<slug:verb>/", destinations.act_on_endpoint, name="act_on_endpoint"),
    path("destinations/<path:name>/<slug:verb>/", destinations.act, name="act_on_destination"),
    path("workers/", workers.workers, name="workers"),
    path("catalogue/", catalogue.catalogue, name="catalogue"),
    path("catalogue/<str:name>/", catalogue.event_type, name="event_type"),
    path("audit/", audit.audit, name="audit"),
    path("audit/verify/", audit.verify_log, name="verify"),
]
