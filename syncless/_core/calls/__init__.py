"""System calls that try first and park only when they must: sockets, messages, descriptors, files."""
