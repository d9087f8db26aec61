"""The old location of the error log, which has moved to http/log/errorlog.py."""

import sys

from syncless.http.log import errorlog

sys.modules[__name__] = errorlog
