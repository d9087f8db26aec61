"""The examples of the page about asyncio."""

import pathlib
import re

import pytest

from tests.programs import run_python

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "howto" / "asyncio.md"
PRINTED = ["done\n", "True\n", "8\n", "later\n", "[0, 0, 0, 0]\n"]


BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("block", "printed"), list(zip(BLOCKS, PRINTED, strict=True)), ids=range(len(PRINTED))
)
def test_example_prints(block, printed):
    assert run_python(block) == printed
