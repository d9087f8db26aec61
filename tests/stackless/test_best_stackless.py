"""best_stackless: one import for Stackless Python and for every other one."""

import pytest

from tests.programs import run_python


@pytest.mark.slow
def test_ours_serves_where_there_is_no_other():
    assert (
        run_python("""
from syncless.best_stackless import stackless
import stackless as imported
assert imported is stackless and imported.current is imported.main
print(stackless.__name__)
""")
        == "syncless.stackless\n"
    )


@pytest.mark.slow
def test_the_interpreters_own_is_taken(tmp_path):
    (tmp_path / "stackless.py").write_text("this = 'the real one'")
    printed = run_python("from syncless.best_stackless import stackless; print(stackless.this)", cwd=tmp_path)
    assert printed == "the real one\n"
