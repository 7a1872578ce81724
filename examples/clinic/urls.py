from __future__ import annotations

from django.urls import include, path

from examples.clinic import pages
from examples.clinic.views import appointments, desk, people

urlpatterns = [
    path("", pages.home),
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
