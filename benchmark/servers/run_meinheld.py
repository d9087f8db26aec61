"""meinheld: run_meinheld.py PORT APPLICATION"""

import sys

from apps import named
from meinheld import server

if sys.argv[2] != "logged":
    server.set_access_logger(None)
server.set_keepalive(60)
server.listen(("127.0.0.1", int(sys.argv[1])))
server.run(named(sys.argv[2]))
