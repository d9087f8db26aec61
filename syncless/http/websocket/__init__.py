"""WebSockets: their messages, and the frames that carry them."""
