"""Static files: `StaticFiles` in files.py answers requests below URL prefixes from directories."""
