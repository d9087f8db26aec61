"""A Flask application with JSON and a streamed response.

Run ``python -m examples.flask_app`` and visit http://127.0.0.1:8000/. Needs ``pip install flask``.
"""

from flask import Flask, request

import syncless
from syncless.wsgi import serve

app = Flask(__name__)


@app.get("/")
def hello():
    return "Hello, World!\n"


@app.post("/double")
def double():
    return {"doubled": [2 * number for number in request.get_json()]}


@app.get("/count")
def count():
    def lines():
        for number in range(3):
            yield f"{number}\n"
            syncless.sleep(0.1)

    return lines(), {"Content-Type": "text/plain"}


if __name__ == "__main__":
    serve(app)
