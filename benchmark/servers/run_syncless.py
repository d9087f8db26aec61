"""syncless: run_syncless.py PORT APPLICATION [WORKERS [ACCESS LOG]]; "logged" is hello with the access log on
stdout"""

import sys

from apps import named

import syncless
from syncless.wsgi import serve

workers = int((sys.argv[3:] or ["0"])[0])
log = (sys.argv[4:] or [True if sys.argv[2] == "logged" else None])[0]
serve(
    named(sys.argv[2], syncless.sleep),
    port=int(sys.argv[1]),
    workers=workers,
    preload=True,
    access_log=log,
    quiet=True,
)
