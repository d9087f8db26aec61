"""call_later.py's application on syncless, with a timer tasklet: run_call_later.py PORT"""

import sys

from call_later import answer, read

import syncless
from syncless.wsgi import serve


def later():
    syncless.sleep(5)
    read()


def app(environ, start_response):
    read()
    syncless.spawn(later)
    return answer(start_response)


serve(app, port=int(sys.argv[1]), quiet=True)
