"""syncless: run_syncless.py PORT APPLICATION"""

import sys

from apps import named

import syncless
from syncless.wsgi import serve

serve(named(sys.argv[2], syncless.sleep), port=int(sys.argv[1]), quiet=True)
