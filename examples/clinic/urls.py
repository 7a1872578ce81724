from __future__ import annotations

from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.urls import include, path

from examples.clinic import pages
from examples.clinic.views import appointments, controls, desk, people

urlpatterns = [
    path("admin/duebox/", include("duebox.dashboard.urls")),
    path("admin/", admin.site.urls),
    # `runserver` serves static files only with DEBUG = True, which an example should not show.
    path("static/<path:path>", serve, {"insecure": True}),
    path("", pages.home),
    path("outgoing/", pages.outgoing),
    path("parts/<slug:name>/", pages.part),
    path("controls/example-data/", controls.add_example_data),
    path("controls/sql/<slug:name>/", controls.run_statement),
    path("controls/gateway/", controls.switch_gateway),
    path("controls/dead-letters/retry/", controls.retry_dead_letters),
    path("controls/forgery/", controls.send_forgery),
    path("controls/clock/", controls.fast_forward),
    path("patients/", people.invite_patient),
    path("patients/<int:pk>/register/", people.register_patient),
    path("patients/<int:pk>/move/", people.move_patient),
    path("doctors/", people.hire_doctor),
    path("insurers/", people.contract_insurer),
    path("appointments/", appointments.book),
    path("appointments/<str:reference>/", pages.appointment),
    path("appointments/<str:reference>/reschedule/", appointments.reschedule),
    path("appointments/<str:reference>/cancel/", appointments.cancel),
    path("appointments/<str:reference>/attend/", appointments.attend),
    path("invoices/<int:pk>/pay/", desk.pay_invoice),
    path("tasks/", desk.add_task),
    path("tasks/<int:pk>/done/", desk.finish_task),
    path("", include("examples.clinic.organizations.urls")),
]
