"""meinheld: run_meinheld.py PORT APPLICATION"""

import sys

from apps import named
from meinheld import server

if sys.argv[2] != "logged":
    server.set_access_logger(None)
server.set_keepalive(600)
server.set_picoev_max_fd(12_200)  # of 4,096; beyond them it answers nobody
server.listen(("127.0.0.1", int(sys.argv[1])))
server.run(named(sys.argv[2]))
