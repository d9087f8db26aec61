"""A web.py application, served unchanged.

Run ``python -m examples.webpy_app`` and visit http://127.0.0.1:8000/web.py. Needs ``pip install web.py``.
"""

import web

from syncless.wsgi import serve

urls = ("/(.*)", "Hello")


class Hello:
    def GET(self, name):
        return f"Hello, {name or 'World'}!\n"


app = web.application(urls, {"Hello": Hello})

if __name__ == "__main__":
    serve(app)
