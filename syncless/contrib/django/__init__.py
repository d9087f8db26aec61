"""An app for Django's INSTALLED_APPS: ``manage.py runsyncless`` (see management/commands/runsyncless.py)."""
