"""call_later.py's application on syncless: run_call_later.py PORT [blocking]

With a timer tasklet; "blocking": without the second reading, as uWSGI's blocking modes do it.
"""

import sys

from call_later import answer, read

import syncless
from syncless.wsgi import serve


def later():
    syncless.sleep(5)
    read()


def app(environ, start_response):
    read()
    if not blocking:
        syncless.spawn(later)
    return answer(start_response)


blocking = sys.argv[2:] == ["blocking"]
serve(app, port=int(sys.argv[1]), quiet=True)
