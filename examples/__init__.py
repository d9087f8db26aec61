"""Programs that show one thing each. Each says in its first lines how to run it and what to try."""
