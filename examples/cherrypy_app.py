"""A CherryPy root object, served unchanged.

Run ``python -m examples.cherrypy_app`` and visit http://127.0.0.1:8000/add?a=1&b=2. Needs ``pip install
cherrypy``.
"""

import cherrypy

from syncless.wsgi import serve


class Root:
    @cherrypy.expose
    def index(self):
        return "Hello, World!\n"

    @cherrypy.expose
    def add(self, a, b):
        return f"{int(a) + int(b)}\n"


app = Root

if __name__ == "__main__":
    serve(app)
