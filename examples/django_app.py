"""Django in a single file.

Run ``python -m examples.django_app`` and visit http://127.0.0.1:8000/. Needs ``pip install django``.
"""

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from syncless.wsgi import serve

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="only an example", DEBUG=False)
django.setup()


def hello(request):
    return HttpResponse("Hello, World!\n", content_type="text/plain")


@csrf_exempt
def length(request):
    return JsonResponse({"bytes": len(request.body)})


urlpatterns = [path("", hello), path("length", length)]
app = get_wsgi_application()

if __name__ == "__main__":
    serve(app)
