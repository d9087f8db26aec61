"""Runs ``python -m syncless.wsgi module``, the name of this command in the original Syncless."""

import sys

from syncless.cli import main

if __name__ == "__main__":
    sys.exit(main())
