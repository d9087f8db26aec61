"""CherryPy's own features: uploads, streams, sessions, redirects, conditional requests, static
files."""

import hashlib
import json
import os
import pathlib
import tempfile

import cherrypy
from cherrypy.lib.static import serve_file

FOLDER = pathlib.Path(tempfile.mkdtemp())
BLOB = os.urandom(1 << 20) * 3
(FOLDER / "blob").write_bytes(BLOB)


def digest_of(stream):
    digest, size = hashlib.sha256(), 0
    while block := stream.read(1 << 16):
        digest.update(block)
        size += len(block)
    return {"size": size, "sha256": digest.hexdigest()}


class Root:
    @cherrypy.expose
    def index(self):
        return "hello"

    @cherrypy.expose
    def upload(self, file, field):
        return json.dumps({"name": file.filename, "field": field, **digest_of(file.file)})

    @cherrypy.expose
    @cherrypy.config(**{"request.process_request_body": False})
    def raw(self):
        return json.dumps(digest_of(cherrypy.request.rfile))

    @cherrypy.expose
    @cherrypy.config(**{"response.stream": True})
    def stream(self):
        return (f"{number} /stream\n" for number in range(1000))

    @cherrypy.expose
    def login(self, user):
        cherrypy.session["user"] = user
        raise cherrypy.HTTPRedirect("/whoami")

    @cherrypy.expose
    def whoami(self):
        return json.dumps({"user": cherrypy.session.get("user")})

    @cherrypy.expose
    @cherrypy.tools.etags(autotags=True)
    def etag(self):
        return "the same as before"

    @cherrypy.expose
    def file(self):
        return serve_file(str(FOLDER / "blob"), "application/octet-stream")

    @cherrypy.expose
    def boom(self):
        raise RuntimeError("boom")


cherrypy.config.update(
    {"log.screen": False, "server.max_request_body_size": 0, "request.show_tracebacks": False}
)
app = cherrypy.Application(Root(), "", {"/": {"tools.sessions.on": True}})
