"""FastAPI beside Flask in one process: they share a queue.

    python -m syncless examples.both:flask_app --mount /api=examples.both:api
    curl localhost:8000/api/next            # waits
    curl localhost:8000/say/hello           # ends the wait

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
    """Wait in a coroutine for a tasklet."""
    return {"said": await in_tasklet(said.get)}


@api.get("/slow")
async def slow() -> dict[str, str]:
    """Block by accident, without blocking other requests."""
    time.sleep(1)
    return {"slept": "a second"}


@flask_app.get("/say/<word>")
def say(word: str) -> str:
    said.put(word)
    return "said\n"
