"""Which content codings a client accepts, by the words of RFC 9110, 12.5.3."""

import pytest

from syncless.http.content.codings import accepted, gains, vary


@pytest.mark.parametrize(
    ("field", "codings"),
    [
        ("", ()),
        ("gzip", ("gzip",)),
        ("x-gzip", ("gzip",)),
        ("GZip, Br", ("br", "gzip")),
        ("gzip, deflate, br, zstd", ("br", "zstd", "gzip")),
        ("gzip;q=1.0, br;q=0.5, zstd;q=0", ("gzip", "br")),
        ("br;q=0.001", ("br",)),
        ("br;q=0", ()),
        ("br ; q=0.3 , gzip ;q=0.4", ("gzip", "br")),
        ("*", ("br", "zstd", "gzip")),
        ("*;q=0", ()),
        ("gzip, *;q=0", ("gzip",)),
        ("br;q=0, *", ("zstd", "gzip")),
        ("identity", ()),
        ("identity;q=0.5, gzip;q=0.2, br;q=0.7", ("br",)),
        ("identity;q=0, gzip;q=0.2", ("gzip",)),
        ("gzip;q=2", ()),
        ("gzip;q=, br;q=x", ()),
        ("gzip;level=9", ()),
        (",,gzip,", ("gzip",)),
        ("compress, deflate", ()),
    ],
)
def test_accepted_codings(field, codings):
    assert accepted(field) == codings


@pytest.mark.parametrize(
    "media_type",
    "text/html; charset=utf-8|TEXT/CSS|application/json|application/problem+json|image/svg+xml"
    "|application/wasm|text/event-stream|font/ttf|application/javascript".split("|"),
)
def test_types_that_shrink_are_compressed(media_type):
    assert gains(media_type)


@pytest.mark.parametrize(
    "media_type",
    "image/png|video/mp4|application/zip|font/woff2|application/octet-stream|application/pdf||image/jpeg"
    "|application/gzip|multipart/byteranges; boundary=a".split("|"),
)
def test_types_that_do_not_shrink_are_left_alone(media_type):
    assert not gains(media_type)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "Accept-Encoding"),
        (" ", "Accept-Encoding"),
        ("Cookie", "Cookie, Accept-Encoding"),
        ("cookie, ACCEPT-encoding", "cookie, ACCEPT-encoding"),
        ("*", "*"),
    ],
)
def test_vary(before, after):
    assert vary(before) == after
