"""Limits in use: native code has each under its name in Limits."""

import pathlib
import re
from dataclasses import asdict, fields

import syncless.http
from syncless.http.application import Application
from syncless.http.limits import Limits
from syncless.http.listener import Listener

HTTP = pathlib.Path(syncless.http.__file__).parent
NATIVE = re.findall(r"^    \w+ (\w+)$", (HTTP / "limits.pxd").read_text(), re.MULTILINE)


def test_listener_uses_each_limit_that_it_is_given():
    values = {field.name: number for number, field in enumerate(fields(Limits), start=1)}
    listener = Listener(Application(), Limits(**values), None, None)
    assert listener.limits == {name: values[name] for name in NATIVE}


def test_defaults_of_limits_fit_their_native_types():
    limits = Limits()
    assert Listener(Application(), limits, None, None).limits.items() <= asdict(limits).items()
