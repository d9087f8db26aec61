"""The app's name and label."""

from django.apps import AppConfig


class SynclessConfig(AppConfig):
    name = "syncless.contrib.django"
    label = "syncless"
