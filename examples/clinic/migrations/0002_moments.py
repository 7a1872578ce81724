"""Zones, birthdays, tasks that are done, and messages; doctors become rows with a zone of their own."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def make_doctors(apps: Any, schema_editor: Any) -> None:
    names = apps.get_model("clinic", "Appointment").objects.values_list("doctor", flat=True).distinct()
    doctor = apps.get_model("clinic", "Doctor")
    doctor.objects.bulk_create(doctor(name=name) for name in names)


class Migration(migrations.Migration):
    dependencies = [("clinic", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Doctor",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("zone", models.TextField(default="UTC")),
            ],
        ),
        migrations.RunPython(make_doctors, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="appointment",
            name="doctor",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="appointments", to="clinic.doctor"
            ),
        ),
        migrations.AddField(model_name="patient", name="zone", field=models.TextField(default="UTC")),
        migrations.AddField(model_name="patient", name="born_on", field=models.DateField(blank=True, null=True)),
        migrations.AddField(model_name="task", name="done", field=models.BooleanField(default=False)),
        migrations.AddField(
            model_name="task",
            name="reminded_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("event_id", models.UUIDField(unique=True)),
                ("recipient", models.TextField()),
                ("zone", models.TextField()),
                ("text", models.TextField()),
                ("sent_at", models.DateTimeField()),
            ],
        ),
    ]
