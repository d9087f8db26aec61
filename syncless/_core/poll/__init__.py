"""The operating system's facilities that report ready descriptors, one file each; poller.pyx defines their
contract."""
