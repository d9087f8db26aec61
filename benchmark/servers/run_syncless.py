"""syncless: run_syncless.py PORT APPLICATION [WORKERS [ACCESS LOG [STANDBY THREADS]]]; "logged" is hello with
the access log on stdout, "counted" is hello whose requests are counted as for metrics, without the thread
that reads the counts, "untraced" is hello with OpenTelemetry and no request traced, "traced" with all of
them, both without the thread that sends, "patched" is hello under the patch; " unrecorded" behind a name: no
wait of a request is recorded"""

import os
import sys

from apps import named

import syncless
from syncless.wsgi import Server, serve

port, name = int(sys.argv[1]), sys.argv[2].removesuffix(" unrecorded")
workers = int((sys.argv[3:] or ["0"])[0])
log = (sys.argv[4:] or [True if name == "logged" else None])[0] or None
standby = int((sys.argv[5:] or ["0"])[0])
is_told = name in ("untraced", "traced")
if is_told:
    from syncless.server.otel.exporter import Exporter

    Exporter.start = Exporter.begin_stop = Exporter.close = lambda *arguments: None
    Exporter.is_over = True
    os.environ["OTEL_TRACES_SAMPLER"] = f"parentbased_always_{'on' if name == 'traced' else 'off'}"
if name == "counted":
    from syncless.http.listener import CELLS, Counters

    server = Server(named(name), port=port)
    server.counters = Counters(bytearray(CELLS * 8))
    server.run(quiet=True)
else:
    serve(
        named(name, syncless.sleep),
        port=port,
        workers=workers,
        preload=True,
        access_log=log,
        patch=standby > 0 or name in ("database", "django database", "patched"),
        standby_threads=standby,
        recorded_waits=64 if name == sys.argv[2] else 0,
        otel=is_told,
        http2="cleartext" if name.startswith("http2") else "off",
        certfile=os.environ.get("CERTFILE"),
        keyfile=os.environ.get("KEYFILE"),
        quiet=True,
    )
