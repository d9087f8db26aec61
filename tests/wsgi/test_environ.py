"""The environ of a request (PEP 3333)."""

import pytest

from syncless.apps.wsgi.application import environ_of


def environ(head, template=None):
    return environ_of(
        template or {"SERVER_NAME": "s"}, head.encode("latin-1") if isinstance(head, str) else head
    )


def test_field_names_with_an_underscore_are_left_out():
    """As CGI variables they would pass for others."""
    found = environ(
        "GET / HTTP/1.1\r\nHost: h\r\nX_Own: evil\r\nX-Own: 1\r\nX_Other: evil\r\n_: evil\r\n\r\n"
    )
    assert found["HTTP_X_OWN"] == "1" and "evil" not in found.values()
    assert not {"HTTP_X_OTHER", "HTTP__"} & found.keys()


def test_the_usual_fields():
    found = environ(
        "POST /a%20b/%C3%A9?q=%20 HTTP/1.1\r\n"
        "Host: h:1\r\nContent-Type: t/x\r\nContent-Length: 3\r\nX-Own: 1\r\nCookie: a=b\r\n\r\n"
    )
    assert (found["REQUEST_METHOD"], found["PATH_INFO"]) == ("POST", "/a b/\u00c3\u00a9")
    assert found["QUERY_STRING"] == "q=%20"
    assert (found["CONTENT_TYPE"], found["CONTENT_LENGTH"], found["HTTP_HOST"]) == ("t/x", "3", "h:1")
    assert (found["HTTP_X_OWN"], found["HTTP_COOKIE"]) == ("1", "a=b")
    assert found["SERVER_PROTOCOL"] == "HTTP/1.1"
    assert "HTTP_CONTENT_TYPE" not in found and "HTTP_CONTENT_LENGTH" not in found
    assert all(type(key) is str for key in found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/%41%4a", "/AJ"),
        ("/%", "/%"),
        ("/%4", "/%4"),
        ("/%zz", "/%zz"),
        ("/%2541", "/%41"),
        ("/%2F", "//"),
        ("//a/../b", "//a/../b"),
        ("/a+b", "/a+b"),
    ],
)
def test_a_path_is_decoded_once(path, expected):
    assert environ(f"GET {path} HTTP/1.0\r\n\r\n")["PATH_INFO"] == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", "/"),
        ("/a", "/a"),
        ("/a%2Fb/c%20d?x=%31", "/a%2Fb/c%20d?x=%31"),
        ("/?", "/?"),
        ("/\u00e9", "/\u00e9"),
        ("*", "*"),
        ("http://b:8/x%2Fy?z", "/x%2Fy?z"),
        ("http://b?z", "/?z"),
        ("http://b", "/"),
    ],
)
def test_request_uri_is_the_path_and_the_query_as_they_came(target, expected):
    """As other servers have it; of an absolute target without the host."""
    for _ in range(2):
        found = environ(f"{'OPTIONS' if target == '*' else 'GET'} {target} HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (found["REQUEST_URI"], found["RAW_URI"]) == (expected, expected)


def test_request_uri_is_that_of_each_request(start):
    """Also where the connection's head, or its fields, are remembered."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [environ["REQUEST_URI"].encode("latin-1")]

    client = start.client(start(app))
    for path in ["/", "/a%20b", "/a%20b", "/", "/?q", "/?q", "/c", "/a%20b?q", "/"] * 2:
        assert client.get(path)[2] == path.encode()


def test_fields_that_could_pass_for_others_are_left_out():
    found = environ(
        "GET / HTTP/1.1\r\nHost: h\r\n"
        "User_Agent: evil\r\nUser-Agent: good\r\nProxy: evil\r\nContent_Length: 5\r\n\r\n"
    )
    assert found["HTTP_USER_AGENT"] == "good" and "HTTP_PROXY" not in found and "CONTENT_LENGTH" not in found


def test_repeated_fields_are_joined():
    found = environ(
        "GET / HTTP/1.1\r\nHost: h\r\n"
        "Accept: a\r\nX: 1\r\nCookie: a=1\r\nACCEPT: b\r\nx: 2\r\nCookie: b=2\r\n"
        "User-Agent: c\r\nUser-Agent: d\r\n\r\n"
    )
    assert (found["HTTP_ACCEPT"], found["HTTP_X"], found["HTTP_COOKIE"]) == ("a,b", "1,2", "a=1; b=2")
    assert found["HTTP_USER_AGENT"] == "c,d"


def test_absolute_form_decides_the_host():
    found = environ("GET http://target:8/p?q HTTP/1.1\r\nHost: other\r\n\r\n")
    assert (found["HTTP_HOST"], found["PATH_INFO"], found["QUERY_STRING"]) == ("target:8", "/p", "q")
    assert environ("GET http://target HTTP/1.1\r\nHost: other\r\n\r\n")["PATH_INFO"] == "/"
    assert environ("GET http://target?q HTTP/1.1\r\nHost: other\r\n\r\n")["QUERY_STRING"] == "q"
    assert environ("OPTIONS * HTTP/1.1\r\nHost: other\r\n\r\n")["PATH_INFO"] == "*"


def test_each_environ_is_its_own():
    template = {"SERVER_NAME": "s"}
    first, second = environ("GET / HTTP/1.0\r\n\r\n", template), environ("GET / HTTP/1.0\r\n\r\n", template)
    first["extra"] = 1
    assert "extra" not in second and template == {"SERVER_NAME": "s"}


def test_many_fields():
    head = "GET / HTTP/1.1\r\nHost: h\r\n" + "".join(f"X-{n}: {n}\r\n" for n in range(99)) + "\r\n"
    found = environ(head)
    assert all(found[f"HTTP_X_{n}"] == str(n) for n in range(99))
