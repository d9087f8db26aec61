"""Django's own features: uploads, streams, signed sessions, redirects, conditional requests,
FileResponse."""

import hashlib
import os
import pathlib
import tempfile

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from syncless.apps.wsgi.filewrapper import FileWrapper

FOLDER = pathlib.Path(tempfile.mkdtemp())
BLOB = os.urandom(1 << 20) * 3
(FOLDER / "blob").write_bytes(BLOB)
settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="only a test",
    DEBUG=False,
    USE_X_FORWARDED_HOST=False,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
    ],
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
)
django.setup()
regions = 0
original_region = FileWrapper.region


def counted_region(self):
    global regions
    found = original_region(self)
    regions += found is not None
    return found


FileWrapper.region = counted_region


@csrf_exempt
def upload(request):
    sent = request.FILES["file"]
    digest, size = hashlib.sha256(), 0
    for block in sent.chunks():
        digest.update(block)
        size += len(block)
    return JsonResponse(
        {"name": sent.name, "size": size, "sha256": digest.hexdigest(), "field": request.POST["field"]}
    )


@csrf_exempt
def raw(request):
    digest, size = hashlib.sha256(), 0
    while block := request.read(1 << 16):
        digest.update(block)
        size += len(block)
    return JsonResponse({"size": size, "sha256": digest.hexdigest()})


def login(request):
    request.session["user"] = request.GET["user"]
    return HttpResponseRedirect("/whoami")


def boom(request):
    raise RuntimeError("boom")


urlpatterns = [
    path("", lambda request: HttpResponse("hello")),
    path("upload", upload),
    path("raw", raw),
    path(
        "stream",
        lambda request: StreamingHttpResponse(f"{number} {request.path}\n" for number in range(1000)),
    ),
    path("login", login),
    path("whoami", lambda request: JsonResponse({"user": request.session.get("user")})),
    path("etag", lambda request: HttpResponse("the same as before")),
    path("file", lambda request: FileResponse((FOLDER / "blob").open("rb"))),
    path("regions", lambda request: HttpResponse(str(regions))),
    path("boom", boom),
]
app = get_wsgi_application()
