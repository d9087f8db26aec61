"""Static files: `StaticFiles` in mounts.py answers requests below some prefixes from directories."""
