"""The logs of a server: of its requests, and of itself."""
