"""A chat in the browser that all workers serve, with Flask and server-sent events, and nothing to install
beside it.

Run ``syncless examples.sharedchat --workers 4`` and open the page in two windows. docs/howto/shared.md tells
of it. Needs ``pip install flask``.
"""

from flask import Flask, Response, request

from syncless.shared import Counter, RateLimit, publish, subscribe

PAGE = """<!doctype html><title>chat</title><h1>chat</h1><ul id="lines"></ul>
<form onsubmit="fetch('/say', {method: 'POST', body: text.value}); text.value = ''; return false">
<input id="text" autofocus></form>
<script>
new EventSource("/lines").onmessage = event => {
  lines.appendChild(document.createElement("li")).textContent = event.data
}
</script>"""

app = Flask(__name__)


@app.get("/")
def page():
    return PAGE


@app.get("/lines")
def lines():
    subscription = subscribe("chat")
    number = Counter("chatters").add()

    def stream():
        with subscription:
            yield f"data: hello, number {number}\n\n"
            for message in subscription:
                yield f"data: {message.data}\n\n"

    return Response(stream(), mimetype="text/event-stream")


@app.post("/say")
def say():
    if not RateLimit(f"say {request.remote_addr}", "20/second").allow():
        return "not so fast\n", 429
    publish("chat", " ".join(request.get_data(as_text=True).split()))
    return "", 204
