"""``python -m syncless``: the command line, see syncless.cli."""

import sys

from syncless.cli import main

if __name__ == "__main__":
    sys.exit(main())
