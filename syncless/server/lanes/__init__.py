"""The parts of a server that serve connections: the loop that called `serve`, and threads alongside it."""
