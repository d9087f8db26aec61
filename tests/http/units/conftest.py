"""Builds units.pyx, through which tests reach the server's units."""

import pathlib

import pytest

from tests.units import built


@pytest.fixture(scope="session")
def units(tmp_path_factory):
    return built(pathlib.Path(__file__).parent / "units.pyx", tmp_path_factory.mktemp("units"))
