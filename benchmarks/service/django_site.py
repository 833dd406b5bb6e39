"""A Django site: one object by the ORM from PostgreSQL."""

import random

from django.db import models
from django.http import HttpRequest, HttpResponse
from django.urls import path

from benchmarks.service.database import ITEMS, TABLE


class Item(models.Model):  # type: ignore[misc]
    """A row of the table."""

    id = models.IntegerField(primary_key=True)
    name = models.TextField()

    class Meta:
        app_label = "benchmarks"
        db_table = TABLE
        managed = False


def item(request: HttpRequest) -> HttpResponse:
    """Show an item."""
    found = Item.objects.get(pk=random.randrange(ITEMS))
    return HttpResponse(f"{found.id}: {found.name}\n", content_type="text/plain")


urlpatterns = [path("", item)]
