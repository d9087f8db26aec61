"""An app for the projects of Django: its name and label."""

from django.apps import AppConfig


class SynclessConfig(AppConfig):
    name = "syncless.contrib.django"
    label = "syncless"
