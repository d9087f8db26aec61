"""Each test runs in a thread of its own: a timer of the test's frame would be something that run() waits
for."""

import threading

import pytest

import syncless


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if "stackless" not in str(pyfuncitem.path):
        return None
    outcome = []

    def run():
        try:
            arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            pyfuncitem.obj(**arguments)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    syncless.run_in_thread(thread.join, 60)
    assert not thread.is_alive(), "the test hangs"
    if outcome:
        raise outcome[0]
    return True
