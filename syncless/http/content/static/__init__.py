"""Static files: `StaticFiles` in files.py answers requests below some prefixes from directories."""
