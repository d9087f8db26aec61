"""gevent.pywsgi, with TCP_NODELAY: run_gevent.py PORT APPLICATION"""

import socket
import sys

import gevent
from apps import named
from gevent.pywsgi import WSGIServer

log = sys.stdout if sys.argv[2] == "logged" else None


class Server(WSGIServer):
    def do_read(self):
        accepted = super().do_read()
        if accepted is not None:
            accepted[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return accepted


Server(
    ("127.0.0.1", int(sys.argv[1])), named(sys.argv[2], gevent.sleep), log=log, backlog=1024
).serve_forever()
