"""WebSockets: messages, and the frames that carry them."""
