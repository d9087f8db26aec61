"""Waiting for one another: locks, events, queues, channels, and the first of several."""
