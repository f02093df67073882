"""The rows of the project."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    item = models.TextField()
    invoiced = models.BooleanField(default=False)
