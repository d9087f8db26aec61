"""A chat in the browser over WebSockets: a page, and a tasklet for each direction of each client.

Run ``python -m syncless examples.webchat`` and open the page in two windows. Needs ``pip install
'syncless[websocket]'``.
"""

import json

import syncless
from syncless.wsgi import WebSocketClosed

PAGE = b"""<!doctype html>
<meta charset="utf-8">
<title>syncless chat</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; color: #222 }
  body { max-width: 40em; margin: 2em auto; padding: 0 1em }
  #lines { border: 1px solid #ccc; border-radius: 6px; min-height: 15em; padding: .5em 1em; margin: 1em 0 }
  #lines p { margin: .2em 0 } .system { color: #888 }
  form { display: flex; gap: .5em }
  input { flex: 1; font: inherit; padding: .4em } button { font: inherit; padding: .4em 1em }
</style>
<h1>syncless chat</h1>
<div id="lines" aria-live="polite"></div>
<form>
<input id="text" autocomplete="off" placeholder="your name, then what you want to say" autofocus>
<button>Send</button>
</form>
<script>
  const lines = document.getElementById("lines"), text = document.getElementById("text");
  const scheme = location.protocol === "https:" ? "wss://" : "ws://";
  const socket = new WebSocket(scheme + location.host + "/room", "chat");
  function show(line, kind) {
    const p = document.createElement("p");
    p.textContent = line;
    p.className = kind;
    lines.append(p);
  }
  socket.onmessage = event => { const said = JSON.parse(event.data); show(said.line, said.kind); };
  socket.onclose = event => show("The connection is closed (" + event.code + ").", "system");
  document.querySelector("form").onsubmit = event => {
    event.preventDefault();
    if (text.value) socket.send(text.value);
    text.value = "";
  };
</script>
"""

members = {}


def say(line, kind="said"):
    for inbox in members.values():
        inbox.put(json.dumps({"line": line, "kind": kind}))


def send_all(websocket, inbox):
    """Each member gets the room's lines at its own pace, so a slow member blocks nobody."""
    try:
        while True:
            websocket.send(inbox.get())
    except WebSocketClosed:
        pass  # the sender receives notices, too, and leaves the room


def room(websocket):
    websocket.accept(subprotocol="chat" if "chat" in websocket.subprotocols else None)
    name = websocket.receive()
    if name is None:
        return
    inbox = members[websocket] = syncless.Queue()
    sender = syncless.spawn(send_all, websocket, inbox)
    say(f"{name} is here, {len(members)} in the room", "system")
    try:
        for line in websocket:
            say(f"{name}: {line}")
    finally:
        del members[websocket]
        sender.kill()
        say(f"{name} has left", "system")


def same_origin(environ, websocket):
    """Pages of other sites must not join in the name of their visitors."""
    return websocket.origin is None or websocket.origin.partition("://")[2] == environ["HTTP_HOST"]


def app(environ, start_response):
    websocket = environ.get("wsgi.websocket")
    if environ["PATH_INFO"] == "/":
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
        return [PAGE]
    if environ["PATH_INFO"] != "/room" or websocket is None or not same_origin(environ, websocket):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"There is a page at / and a WebSocket at /room.\n"]
    room(websocket)
    return []
