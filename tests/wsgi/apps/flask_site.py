"""Flask's (Werkzeug's) own features: uploads, streams, cookies, sessions, redirects, conditional
requests, files."""

import hashlib
import os
import pathlib
import tempfile
import wsgiref.validate

from flask import Flask, Response, make_response, redirect, request, send_file, session, stream_with_context

from syncless.apps.wsgi.filewrapper import FileWrapper

site = Flask(__name__)
site.secret_key = "only a test"
FOLDER = pathlib.Path(tempfile.mkdtemp())
BLOB = os.urandom(1 << 20) * 3
(FOLDER / "blob").write_bytes(BLOB)
regions = 0
original_region = FileWrapper.region


def counted_region(self):
    global regions
    found = original_region(self)
    regions += found is not None
    return found


FileWrapper.region = counted_region


@site.get("/")
def index():
    return "hello"


@site.post("/upload")
def upload():
    sent = request.files["file"]
    digest, size = hashlib.sha256(), 0
    while block := sent.stream.read(1 << 16):
        digest.update(block)
        size += len(block)
    return {"name": sent.filename, "size": size, "sha256": digest.hexdigest(), "field": request.form["field"]}


@site.post("/raw")
def raw():
    digest, size = hashlib.sha256(), 0
    while block := request.stream.read(1 << 16):
        digest.update(block)
        size += len(block)
    return {"size": size, "sha256": digest.hexdigest()}


@site.post("/form")
def form():
    return dict(request.form)


@site.get("/stream")
def stream():
    return Response(
        stream_with_context(f"{number} {request.path}\n" for number in range(1000)), mimetype="text/plain"
    )


@site.get("/login")
def login():
    session["user"] = request.args["user"]
    response = redirect("/whoami")
    response.set_cookie("theme", "d\u00fcrk;,", httponly=True, samesite="Lax")
    return response


@site.get("/whoami")
def whoami():
    return {
        "user": session.get("user"),
        "cookies": sorted(request.cookies),
        "theme": request.cookies.get("theme"),
    }


@site.get("/etag")
def etag():
    response = make_response("the same as before")
    response.add_etag()
    return response.make_conditional(request)


@site.get("/file")
def file():
    return send_file(FOLDER / "blob", conditional=True, etag=True)


@site.get("/regions")
def count():
    return str(regions)


@site.get("/boom")
def boom():
    raise RuntimeError("boom")


@site.get("/late")
def late():
    def parts():
        yield "begun"
        raise RuntimeError("in mid-stream")

    return Response(parts())


@site.route("/empty", methods=["GET", "DELETE"])
def empty():
    response = make_response("", 204)
    del response.headers["Content-Type"]  # wsgiref.validate wants none with a 204
    return response


app = site
validated = wsgiref.validate.validator(site)
