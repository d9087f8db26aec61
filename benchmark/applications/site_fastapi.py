"""FastAPI with SQLAlchemy, in synchronous endpoints."""

import hashlib
import pathlib
from typing import Annotated

import jinja2
import rows
from fastapi import FastAPI, Form, Response, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse

application = FastAPI()
templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / "templates"), autoescape=True
)


@application.get("/", response_class=PlainTextResponse)
def home():
    return "Hello, World!"


@application.get("/single")
def single(n: int):
    return rows.single(n)


@application.get("/queries")
def queries(n: int):
    return rows.queries(n)


@application.get("/updates")
def updates(n: int):
    return rows.updates(n)


@application.get("/cached")
def cached(n: int):
    return rows.cached(n)


@application.get("/fortunes", response_class=HTMLResponse)
def fortunes():
    return templates.get_template("fortunes.html").render(fortunes=rows.fortunes())


@application.post("/login", response_class=PlainTextResponse)
def login(user: Annotated[str, Form()], password: Annotated[str, Form()], response: Response):
    response.set_cookie("session", rows.login(user, password), httponly=True)
    return f"Hello, {user}"


@application.post("/upload")
def upload(file: UploadFile):
    sent = file.file.read()
    return {"size": len(sent), "sha256": hashlib.sha256(sent).hexdigest()}
