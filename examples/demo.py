"""The demo application of ``make serve``: a front page that explains syncless, and routes to try."""

import html
import time

import syncless
from syncless.wsgi import serve

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>syncless</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222 }}
body {{ max-width: 46rem; margin: 3rem auto; padding: 0 1rem }}
code, pre, td {{ font-family: ui-monospace, monospace; font-size: 14px }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem 1rem .2rem 0; text-align: left }}
a {{ color: #0645ad }}
</style></head><body>{body}</body></html>
"""

FRONT = """
<h1>syncless</h1>
<p>Ordinary blocking Python code at event-loop speed. This page comes from a WSGI application. Each request
runs in a <em>tasklet</em>, and a request that waits lets the others run. One thread, no callbacks, no
<code>async</code>.</p>
<ul>
<li><a href="/hello">/hello</a>: the shortest response</li>
<li><a href="/slow?seconds=2">/slow?seconds=2</a>: sleeps without blocking other requests: open it twice,
and this page meanwhile</li>
<li><a href="/stream">/stream</a>: a line every half second, sent as it is made</li>
<li><a href="/upload">/upload</a>: send a file and have its bytes counted while they arrive</li>
<li><a href="/tasklets">/tasklets</a>: the live list of tasklets and what each waits for</li>
</ul>
"""

UPLOAD = """
<h1>Upload</h1>
<form method="post" enctype="application/octet-stream">
<p><input type="file" id="file"> <button>Send</button></p>
</form>
<pre id="result"></pre>
<script>
document.querySelector("form").onsubmit = async (event) => {
  event.preventDefault();
  const answer = await fetch("/upload", {method: "POST", body: document.querySelector("#file").files[0]});
  document.querySelector("#result").textContent = await answer.text();
};
</script>
<p>Or from the shell: <code>curl --data-binary @file http://.../upload</code></p>
"""


def page(body):
    return "200 OK", "text/html; charset=utf-8", [PAGE.format(body=body).encode()]


def text(*lines):
    return "200 OK", "text/plain; charset=utf-8", [line.encode() for line in lines]


def front(environ):
    return page(FRONT)


def hello(environ):
    return text("Hello, World!\n")


def slow(environ):
    wanted = environ["QUERY_STRING"].partition("seconds=")[2]
    try:
        seconds = min(60.0, max(0.0, float(wanted or 1)))
    except ValueError:
        return "400 Bad Request", "text/plain; charset=utf-8", [b"seconds must be a number\n"]
    syncless.sleep(seconds)
    return text(f"slept {seconds:g} s without blocking other requests\n")


def stream(environ):
    def lines():
        for number in range(1, 11):
            yield f"line {number} of 10 at {time.strftime('%H:%M:%S')}\n".encode()
            syncless.sleep(0.5)

    return "200 OK", "text/plain; charset=utf-8", lines()


def upload(environ):
    if environ["REQUEST_METHOD"] != "POST":
        return page(UPLOAD)
    total = pieces = 0
    while piece := environ["wsgi.input"].read(65536):
        total += len(piece)
        pieces += 1
    return text(f"{total} bytes in {pieces} pieces\n")


def tasklets(environ):
    rows = []
    for tasklet in syncless.tasklets():
        waited = tasklet.waiting_seconds
        rows.append(
            f"<tr><td>{html.escape(tasklet.name)}</td><td>{tasklet.status}</td>"
            f"<td>{tasklet.waiting_for or ''}</td><td>{'' if waited is None else f'{waited:.3f} s'}</td></tr>"
        )
    return page(
        "<h1>Tasklets</h1><table><tr><th>name</th><th>state</th><th>waits for</th><th>since</th></tr>"
        + "".join(rows)
        + '</table><p>Open <a href="/slow?seconds=10">/slow?seconds=10</a> in another tab and reload.</p>'
    )


def missing(environ):
    return "404 Not Found", "text/plain; charset=utf-8", [b"There is nothing here. The front page is /\n"]


ROUTES = {
    "/": front,
    "/hello": hello,
    "/slow": slow,
    "/stream": stream,
    "/upload": upload,
    "/tasklets": tasklets,
}


def app(environ, start_response):
    status, kind, body = ROUTES.get(environ["PATH_INFO"], missing)(environ)
    start_response(status, [("Content-Type", kind)])
    return body


if __name__ == "__main__":
    serve(app)
