"""Files and codings, for any kind of application."""
