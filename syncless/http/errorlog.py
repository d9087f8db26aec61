"""The error log by its old place: it is http/log/errorlog.py."""

import sys

from syncless.http.log import errorlog

sys.modules[__name__] = errorlog
