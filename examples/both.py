"""FastAPI beside Flask in one process: they share a queue.

    python -m syncless examples.both:flask_app --mount /api=examples.both:api
    curl localhost:8000/api/next            # waits
    curl localhost:8000/say/hello           # lets it go on

Needs ``pip install fastapi flask``.
"""

import time

from fastapi import FastAPI
from flask import Flask

import syncless
from syncless.asyncio import in_tasklet

said: syncless.Queue[str] = syncless.Queue()

api = FastAPI(root_path_in_servers=False)
flask_app = Flask(__name__)


@api.get("/next")
async def next_one() -> dict[str, str]:
    """A coroutine waits for a tasklet."""
    return {"said": await in_tasklet(said.get)}


@api.get("/slow")
async def slow() -> dict[str, str]:
    """It blocks by accident, and blocks no other request."""
    time.sleep(1)
    return {"slept": "a second"}


@flask_app.get("/say/<word>")
def say(word: str) -> str:
    said.put(word)
    return "said\n"
