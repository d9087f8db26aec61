"""syncless: run_syncless.py PORT APPLICATION [ACCESS LOG]"""

import sys

from apps import named

import syncless
from syncless.wsgi import serve

serve(named(sys.argv[2], syncless.sleep), port=int(sys.argv[1]), access_log=(sys.argv[3:] or [None])[0], quiet=True)
