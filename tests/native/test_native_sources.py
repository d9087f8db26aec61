"""Where native handlers come from: capsules, Cython, ctypes, Numba, Rust; and versions of the interface."""

import ctypes
import importlib.util
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

from syncless import native
from tests.native.conftest import build_in_place, compiled
from tests.preload import without_preload

NAME = b"syncless.native.handler"
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Registration(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32),
        ("pieces", ctypes.c_uint32),
        ("handler", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


def capsule_of(library, abi):
    function = ctypes.CDLL(library).hello
    registration = Registration(abi, 0, ctypes.cast(function, ctypes.c_void_p), None)
    capsule = new_capsule(ctypes.addressof(registration), NAME, None)
    return capsule, registration


def test_capsule(served, library):
    capsule, registration = capsule_of(library, native.ABI)
    client = served.client(served({"/": native.Handler(capsule)}))
    assert client.get("/")[2] == b"Hello, World!"
    assert registration.abi == native.ABI


def test_capsule_of_another_version_is_refused_with_both_numbers(library):
    capsule, registration = capsule_of(library, native.ABI + 41)
    with pytest.raises(ImportError, match=rf"for version {native.ABI + 41} .* has version {native.ABI}"):
        native.Handler(capsule)
    assert registration.abi


def test_library_of_another_version_is_refused_with_both_numbers(tmp_path):
    source = tmp_path / "old.c"
    source.write_text("const unsigned syncless_native_abi = 77; int hello(void) { return 0; }")
    library = compiled(source, tmp_path / "old.so")
    with pytest.raises(ImportError, match=rf"for version 77 .* has version {native.ABI}"):
        native.load(library, "hello")
    with pytest.raises(ImportError, match="no function other"):
        native.load(library, "other")


def test_library_without_a_version_is_refused(tmp_path):
    source = tmp_path / "none.c"
    source.write_text("int hello(void) { return 0; }")
    with pytest.raises(ImportError, match="SYNCLESS_LIBRARY"):
        native.load(compiled(source, tmp_path / "none.so"), "hello")


def test_function_of_ctypes(served, library):
    client = served.client(served({"/": native.Handler(ctypes.CDLL(library).hello)}))
    assert client.get("/")[2] == b"Hello, World!"


@pytest.mark.parametrize("source", [None, 17, "hello", len])
def test_object_that_is_no_handler_is_a_type_error(source):
    with pytest.raises(TypeError):
        native.Handler(source)


CYTHON = """
from syncless.native cimport (
    PASS, alloc, append_format, bytes_view, field, handler, parameter, request, respond, response,
)

cdef int _hello(request* req, response* resp) noexcept nogil:
    return respond(resp, 200, b"text/plain", b"Hello, World!", 13)

cdef int _user(request* req, response* resp) noexcept nogil:
    cdef bytes_view id
    if not parameter(req, b"id", &id) or id.size > 3:
        return PASS
    return append_format(resp, b"user %.*s", <int> id.size, id.data)

hello = handler(_hello)
user = handler(_user)
"""

SETUP = """
import sys
from Cython.Build import cythonize
from setuptools import Extension, setup
from syncless import native
module = Extension("quick", ["quick.pyx"], include_dirs=[native.get_include()])
setup(ext_modules=cythonize([module], language_level=3))
"""


def test_cython(served, tmp_path):
    pytest.importorskip("Cython")
    (tmp_path / "quick.pyx").write_text(CYTHON)
    (tmp_path / "setup.py").write_text(SETUP)
    build_in_place(tmp_path)
    path = tmp_path / f"quick{sysconfig.get_config_var('EXT_SUFFIX')}"
    spec = importlib.util.spec_from_file_location("quick", path)
    quick = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(quick)
    client = served.client(served({"/": quick.hello, "GET /users/{id}": quick.user}))
    assert client.get("/")[2] == b"Hello, World!"
    assert client.get("/users/123")[2] == b"user 123"
    assert client.get("/users/1234")[2] == b"python GET /users/1234 "


def test_numba(served):
    numba = pytest.importorskip("numba", reason="numba is not installed: pip install numba")
    answers = native.functions()
    respond, add_field = answers["respond"], answers["add_field"]
    body = ctypes.create_string_buffer(b"from Numba")
    type_ = ctypes.create_string_buffer(b"text/plain")
    at, size = ctypes.addressof(body), 10
    type_at, type_size = ctypes.addressof(type_), 10
    name = ctypes.create_string_buffer(b"X-Made")
    name_at = ctypes.addressof(name)

    @numba.cfunc(numba.types.intc(numba.types.uintp, numba.types.uintp))
    def hello(request, response):
        if add_field(response, name_at, 6, at, size):
            return -1
        return respond(response, 200, type_at, type_size, at, size, 1)

    client = served.client(served({"/": native.Handler(hello)}))
    _, headers, made = client.get("/")
    assert made == b"from Numba" and headers["x-made"] == "from Numba"
    assert client.get("/py")[2] == b"python GET /py "


RUST = """
#![crate_type = "cdylib"]
use std::os::raw::{c_int, c_void};

#[repr(C)]
pub struct Calls {
    abi: u32,
    size: u32,
    others: [*const c_void; 10],
    respond: unsafe extern "C" fn(*mut c_void, c_int, *const u8, usize, *const u8, usize, c_int) -> c_int,
}

#[repr(C)]
pub struct Request { calls: *const Calls }

#[no_mangle]
pub static syncless_native_abi: u32 = 2;

#[no_mangle]
pub unsafe extern "C" fn hello(request: *mut Request, response: *mut c_void) -> c_int {
    ((*(*request).calls).respond)(response, 201, b"text/plain".as_ptr(), 10, b"from Rust".as_ptr(), 9, 1)
}
"""


def test_rust(served, tmp_path):
    rustc = shutil.which("rustc") or shutil.which("rustc", path=str(pathlib.Path.home() / ".cargo/bin"))
    if rustc is None:
        pytest.skip("there is no Rust compiler: rustc is needed for a cdylib")
    (tmp_path / "hello.rs").write_text(RUST)
    command = [
        rustc,
        "--edition",
        "2021",
        "-A",
        "warnings",
        "-o",
        tmp_path / "hello.so",
        tmp_path / "hello.rs",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=without_preload())
    assert done.returncode == 0, done.stderr
    client = served.client(served({"/": native.load(tmp_path / "hello.so", "hello")}))
    status, headers, body = client.get("/")
    assert (status, headers["content-type"], body) == (201, "text/plain", b"from Rust")
