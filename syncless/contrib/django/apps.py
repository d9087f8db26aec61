"""The app that Django projects install: its name and label."""

from django.apps import AppConfig


class SynclessConfig(AppConfig):
    name = "syncless.contrib.django"
    label = "syncless"
