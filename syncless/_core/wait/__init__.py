"""Ways for tasklets to wait for one another: locks, events, queues, channels, and select()."""
