"""A Django site in one file, whose view asks PostgreSQL."""

from __future__ import annotations

import os
import urllib.parse
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.urls import path

from tests.packages.doors.meeting import meet

where = urllib.parse.urlsplit(os.environ["DHAGA_POSTGRES"])
settings.configure(
    SECRET_KEY="not one",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": where.hostname,
            "PORT": where.port,
            "USER": where.username,
            "PASSWORD": where.password or "",
            "NAME": where.path[1:],
        }
    },
)


def query() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.05)")


def meet_by_query(request: Any, crowd: int) -> HttpResponse:
    return HttpResponse(str(meet(crowd, query)))


urlpatterns = [path("meet/django/<int:crowd>", meet_by_query)]
app = get_wsgi_application()
