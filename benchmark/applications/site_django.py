"""Django: its ORM, templates, sessions, users and the cache in Redis, with the middleware of a new project,
but without CSRF tokens and messages."""

import hashlib
import os
import pathlib
import sys

POOLED = "DATABASE_POOL" in os.environ
"""By psycopg 3, which alone Django has a pool for. Else a connection for each thread, by psycopg2."""
if not POOLED:
    sys.modules["psycopg"] = None  # Django prefers it

import django  # noqa: E402
from asked import BATCH, ITERATIONS, PASSWORD, USERS, changed, chosen  # noqa: E402
from django.conf import settings  # noqa: E402

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a benchmark",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": os.environ["DATABASE_PORT"],
            "NAME": "postgres",
            "USER": "postgres",
            # docs.djangoproject.com/en/5.2/ref/databases: with ASGI "persistent connections should be
            # disabled. Instead, use your database backend's built-in connection pooling"
            **(
                {"OPTIONS": {"pool": {"min_size": 4, "max_size": 20, "timeout": 60}}}
                if POOLED
                else {"CONN_MAX_AGE": 60}
            ),
        }
    },
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{os.environ['REDIS_PORT']}",
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    PASSWORD_HASHERS=[f"{__name__}.Hasher"],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [pathlib.Path(__file__).parent / "templates"],
        }
    ],
)
django.setup()

from django.contrib.auth import authenticate, login  # noqa: E402
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password  # noqa: E402
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402
from django.http import HttpResponse, JsonResponse  # noqa: E402
from django.shortcuts import render  # noqa: E402
from django.urls import path  # noqa: E402


class Hasher(PBKDF2PasswordHasher):
    iterations = ITERATIONS


class World(models.Model):
    id = models.IntegerField(primary_key=True)
    number = models.IntegerField()

    class Meta:
        app_label, db_table = "site", "world"

    def as_json(self):
        return {"id": self.id, "number": self.number}


class Fortune(models.Model):
    id = models.IntegerField(primary_key=True)
    message = models.TextField()

    class Meta:
        app_label, db_table = "site", "fortune"


def prepare():
    """Makes the users' tables, and users."""
    with connection.schema_editor() as editor:
        for model in (ContentType, Permission, Group, User):
            editor.create_model(model)
    password = make_password(PASSWORD)
    User.objects.bulk_create(User(username=f"user{number}", password=password) for number in range(USERS))


def _number(request):
    return int(request.GET["n"])


def single(request):
    return JsonResponse(World.objects.get(id=chosen(_number(request))[0]).as_json())


def queries(request):
    found = [World.objects.get(id=row).as_json() for row in chosen(_number(request))]
    return JsonResponse(found, safe=False)


def updates(request):
    number = _number(request)
    with transaction.atomic():
        worlds = [World.objects.get(id=row) for row in changed(number)]
        for world in worlds:
            world.number = number
        World.objects.bulk_update(worlds, ["number"])
    return JsonResponse([world.as_json() for world in worlds], safe=False)


def cached(request):
    number = _number(request)
    found = cache.get_or_set(f"rows:{number}", lambda: [number] * BATCH, 3600)
    return JsonResponse(found, safe=False)


def fortunes(request):
    found = [*Fortune.objects.all(), Fortune(id=0, message="Added for this request.")]
    found.sort(key=lambda fortune: fortune.message)
    return render(request, "fortunes.html", {"fortunes": found})


def enter(request):
    user = authenticate(request, username=request.POST["user"], password=request.POST["password"])
    if user is None:
        return HttpResponse(status=403)
    login(request, user)
    return HttpResponse(f"Hello, {user.username}")


def upload(request):
    sent = request.FILES["file"].read()
    return JsonResponse({"size": len(sent), "sha256": hashlib.sha256(sent).hexdigest()})


urlpatterns = [
    path("", lambda request: HttpResponse("Hello, World!")),
    path("single", single),
    path("queries", queries),
    path("updates", updates),
    path("cached", cached),
    path("fortunes", fortunes),
    path("login", enter),
    path("upload", upload),
]
application = get_asgi_application() if os.environ.get("GATEWAY") == "ASGI" else get_wsgi_application()
if sys.argv[1:] == ["prepare"]:
    prepare()
