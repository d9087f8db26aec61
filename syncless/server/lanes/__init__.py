"""What serves connections: the loop that called `serve`, and threads beside it."""
