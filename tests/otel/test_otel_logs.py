"""Entries of the error log arrive with the trace of their request."""

import io

import pytest

GET = "GET {} HTTP/1.1\r\nHost: a\r\n\r\n"


def app(environ, start_response):
    if environ["PATH_INFO"] == "/fails":
        raise LookupError("no such order \udc80")
    start_response("200 OK", [])
    environ["wsgi.errors"].write("text of the application\n")
    return [b"ok"]


def test_error_of_a_request_has_its_trace(asked, collector):
    log = io.StringIO()
    [span] = asked(app, GET.format("/fails"), error_log=log)
    [(record, attributes)] = collector.logs
    assert (record.severity_number, record.severity_text) == (17, "ERROR")
    assert record.body.string_value == "Error in GET /fails:"
    assert (record.trace_id.hex(), record.span_id.hex(), record.flags) == (span.trace, span.id, 1)
    assert attributes["exception.type"] == "LookupError"
    assert attributes["exception.message"] == "no such order ?"
    assert attributes["exception.stacktrace"].startswith("Traceback (most recent call last)")
    assert attributes["syncless.request_id"] in log.getvalue()


def test_entry_about_no_request_has_no_trace(start, collector):
    server = start(app, otel=collector.url, error_log=io.StringIO())
    server.logs.errors.warning("the disk is full")
    server.stop()
    [(record, attributes)] = collector.logs
    assert record.severity_text == "WARNING" and record.trace_id == b"" and attributes == {}


@pytest.mark.parametrize("sampler", ["always_off", "parentbased_always_off"])
def test_error_of_a_request_that_is_not_traced_arrives_without_a_trace(
    asked, collector, monkeypatch, sampler
):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    assert asked(app, GET.format("/fails"), error_log=io.StringIO()) == []
    [(record, _)] = collector.logs
    assert record.trace_id == b"" and record.flags == 0


def test_logs_can_be_left_out(asked, collector, monkeypatch):
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    asked(app, GET.format("/fails"), error_log=io.StringIO())
    assert collector.logs == []
