"""Django's routes are named in spans."""

from types import SimpleNamespace

import pytest

from syncless.server.otel.routes import name_routes


def test_django_leaves_its_route_unless_the_application_has():
    base = pytest.importorskip("django.core.handlers.base")
    urls = pytest.importorskip("django.urls")
    name_routes()
    name_routes()  # of another server
    patterns = (
        urls.path("orders/<int:number>/", lambda request, number: None),
        urls.path("", lambda request: 1),
    )
    found = []
    for path, left in (("/orders/7/", {}), ("/", {}), ("/", {"http.route": "/mine"})):
        for attributes in ({"META": left.copy()}, {"META": {}, "scope": left.copy()}):
            request = SimpleNamespace(path_info=path, urlconf=patterns, **attributes)
            assert base.BaseHandler().resolve_request(request) is request.resolver_match
            found.append(
                [getattr(request, name)["http.route"] for name in attributes if getattr(request, name)]
            )
    assert found == [["/orders/<int:number>/"]] * 2 + [["/"]] * 2 + [["/mine"]] * 2
    with pytest.raises(urls.Resolver404):
        base.BaseHandler().resolve_request(SimpleNamespace(path_info="/x", urlconf=patterns, META={}))
