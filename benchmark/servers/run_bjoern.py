"""bjoern: run_bjoern.py PORT APPLICATION"""

import sys

import bjoern
from apps import named

bjoern.run(named(sys.argv[2]), "127.0.0.1", int(sys.argv[1]))
