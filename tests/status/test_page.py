"""The status page in a real browser."""

import pathlib
import re

import pytest

from syncless.server.status import status
from tests.browser import BROWSER, page_of
from tests.status.seen import WAITS_AT
from tests.status.test_status import Asking
from tests.waiting import eventually


def test_each_function_of_the_page_is_used():
    """One that shows a part is called where all are."""
    text = (pathlib.Path(status.__file__).parent / "page.html").read_text()
    names = re.findall(r"function (\w+)\(", text)
    unused = [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2]
    assert len(names) > 10 and unused == []


@pytest.mark.slow
def test_page_follows_its_server(seen):
    """Charts, workers, a request whose path is no markup, a stall; and the end of the server."""
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    pytest.importorskip("websockets", reason="websockets speaks with the browser: pip install websockets")
    running = seen("--workers", "2", "-l", "stop_delay_seconds=60", "--status", "127.0.0.1:0")
    url = running.told.split()[-1]
    with page_of(url) as page:

        def text(where):
            return page.evaluate(f"document.querySelector({where!r})?.innerText") or ""

        assert eventually(lambda: text("#ready") == "ready")
        assert text("#link") == "live"
        assert all(str(pid) in text("#workers") for pid in running.children())
        with Asking(running, "/event/%3Cimg%20id=forged%3E%1b"):
            assert eventually(lambda: "/event/<img id=forged>\\u001b" in text("#requests"))
            assert eventually(lambda: WAITS_AT in text("#requests"))
            assert "event" in text("#requests")
            assert page.evaluate("document.querySelector('#forged')") is None
        assert eventually(lambda: "No request is in flight." in text("main"))
        assert eventually(lambda: "GET /event/<img id=forged>" in text("#slowest"))
        page.evaluate("document.querySelector('#slowest summary').click()")
        assert eventually(lambda: "in 1 waits" in text("#slowest") and WAITS_AT in text("#slowest"))
        assert page.evaluate("document.querySelectorAll('#slowest .track i').length") == 4
        with Asking(running, "/burn"):
            assert eventually(
                lambda: "while not told()" in page.evaluate("document.querySelector('#stalls')?.textContent"),
                20,
            )
        cure = '{function: "a.<b>", at: 1, stalls: 3, configuration: "offload"}'
        page.evaluate(f"showCures([{{pid: 7, self_cures: [{cure}]}}])")
        assert "a.<b>, after 3 stalls" in text("#cures")
        before = page.evaluate("Number(document.documentElement.dataset.updates)")
        assert eventually(
            lambda: page.evaluate("Number(document.documentElement.dataset.updates)") > before + 1, 20
        )
        assert page.evaluate("document.querySelector('.chart path.line').getAttribute('d').length > 10")
        running.process.terminate()
        assert eventually(lambda: text("#ready") == "not ready")
        running.process.terminate()  # ends the delay
        assert eventually(lambda: "connection lost" in text("#link"))
