"""Flask with SQLAlchemy."""

import hashlib

import rows
from flask import Flask, jsonify, make_response, render_template, request

application = Flask(__name__)


def _number():
    return int(request.args["n"])


@application.get("/")
def home():
    return "Hello, World!"


@application.get("/single")
def single():
    return jsonify(rows.single(_number()))


@application.get("/queries")
def queries():
    return jsonify(rows.queries(_number()))


@application.get("/updates")
def updates():
    return jsonify(rows.updates(_number()))


@application.get("/cached")
def cached():
    return jsonify(rows.cached(_number()))


@application.get("/fortunes")
def fortunes():
    return render_template("fortunes.html", fortunes=rows.fortunes())


@application.post("/login")
def login():
    name = request.form["user"]
    response = make_response(f"Hello, {name}")
    response.set_cookie("session", rows.login(name, request.form["password"]), httponly=True)
    return response


@application.post("/upload")
def upload():
    sent = request.files["file"].read()
    return jsonify({"size": len(sent), "sha256": hashlib.sha256(sent).hexdigest()})
