"""Example programs. Each shows one feature; its first lines say how to run it and what to try."""
