"""The operating system's facilities that report ready descriptors, one file each, behind one contract:
poller.pyx."""
