"""System calls that park the tasklet only when they would block: sockets, messages, descriptors, files."""
