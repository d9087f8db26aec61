"""The documentation site: MkDocs calls hooks.py, which adds the pages that reference.py writes."""
