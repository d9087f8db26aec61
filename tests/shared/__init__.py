"""Messages, values and locks of all workers: syncless.shared."""
