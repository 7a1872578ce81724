from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from timesheets.events import MemberInvited, PhoneNumberChanged
from timesheets.models import Member

import duebox


def invite(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        fact = duebox.emit(
            MemberInvited(email="new@example.com", role="guest"), about=("member", 7), organization="org_5"
        )
    return JsonResponse({"event": str(fact.id)})


def phone(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        member = Member.objects.get(name="Ines")
        member.phone = "+351910008901"
        member.password = "another"
        member.save()
        duebox.emit(PhoneNumberChanged(verified=False), about=member)
    return JsonResponse({})


urlpatterns = [path("invite", invite), path("phone", phone)]
