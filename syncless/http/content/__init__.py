"""Static files and content codings, for any kind of application."""
