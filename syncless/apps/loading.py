"""Loads applications by name: "package.module:attribute", "path/to/file.py:attribute", "module:factory()".

A name without a slash means a module if there is one, otherwise a file: myproject.wsgi is the module that
Django creates, site.wsgi a file for mod_wsgi, which is loaded as the module site_wsgi.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType, TracebackType
from typing import Any

from syncless.apps.signature import ASGI, WSGI, takes
from syncless.io.guardedfiles import Place

DEFAULTS = ("application", "app")
"""Attributes that are looked for where the name has none."""
_importing: list[str] = []
"""Names of the applications that are being imported, the innermost last."""
OURS = os.path.abspath(os.path.join(os.path.dirname(__file__), "..")) + os.sep


class ApplicationNotFound(ImportError):
    """The named module, file or attribute does not exist; the text lists what exists, or says what to
    write."""


class ApplicationFailed(Exception):
    """The application's own code raised an exception during its import or creation. The text is the
    traceback, without frames of syncless."""


def load(name: str) -> Any:
    """Return the object that a name stands for. Raise ApplicationNotFound if there is none, ApplicationFailed
    if its code raises an Exception.

    The attribute may be dotted; by default it is ``application`` or ``app``. ``factory()`` is called; any
    arguments must be literals: ``module:create_app("production", debug=False)``. For a path, the folder above
    its outermost package goes into ``sys.path``.
    """
    module_name, colon, expression = name.partition(":")
    if not module_name or (colon and not expression.strip()):
        raise ApplicationNotFound(
            f"incomplete name {name!r}; write module:attribute, for example myproject.web:app"
        )
    _importing.append(name)
    try:
        if os.sep in module_name or (module_name.endswith((".py", ".wsgi")) and not is_module(module_name)):
            module_name = _module_of(module_name)
        else:
            module_name = _beside_the_standard_library(module_name)
        module = _import(module_name)
    finally:
        _importing.pop()
    if not colon:
        expression = next((attribute for attribute in DEFAULTS if hasattr(module, attribute)), "")
        if not expression:
            raise ApplicationNotFound(
                f"module {module_name!r} has neither 'application' nor 'app'; write {module_name}:attribute"
            )
    return _evaluate(module, expression)


_entered: list[str] = []
"""The folder in sys.path that `enter` has put there."""
_held_back: list[str] | None = None
"""Folders that are not in sys.path until admit(); None: all are."""


def enter(folder: str) -> None:
    """Change to a folder, and find modules in it from then on. A symbolic link may lead to another folder
    each time. Raise OSError on failure."""
    os.chdir(folder)
    for left in _entered:
        for folders in (sys.path, _held_back or []):
            if left in folders:
                folders.remove(left)
    here = os.getcwd()
    _entered[:] = [] if "" in sys.path or here in sys.path else [here]
    sys.path[:0] = _entered
    if _held_back is not None:
        hold_back()


def hold_back() -> None:
    """Remove other users' folders from the sys.path of a process of root until admit(): those users could
    put a json.py there. The folders of the interpreter and of syncless are kept, because their code
    already runs."""
    global _held_back
    _held_back = _held_back or []
    for folder in list(sys.path):
        if not _may_import_from(os.path.abspath(folder)):
            sys.path.remove(folder)
            _held_back.append(folder)


def admit() -> None:
    """Let modules be imported from all folders again."""
    global _held_back
    folders, _held_back = _held_back or [], None
    sys.path[:0] = folders


@contextlib.contextmanager
def admitted() -> Iterator[None]:
    """Let imports in the block use all folders, for code that root was told to run."""
    held = _held_back is not None
    admit()
    try:
        yield
    finally:
        if held:
            hold_back()


def _may_import_from(folder: str) -> bool:
    ours = os.path.dirname(OURS.rstrip(os.sep))
    if folder == ours or any(f"{folder}/".startswith(f"{base}/") for base in (sys.prefix, sys.base_prefix)):
        return True
    try:
        with Place(os.path.join(folder, "module.py")) as place:
            return not place.guarded
    except OSError:  # not there, or found by a link of others
        return not os.path.isdir(folder)


def is_module(name: str) -> bool:
    """Return whether there is a module of this dotted name. Nothing is imported."""
    first, *others = name.split(".")
    try:
        spec = find_spec(first)
    except ValueError:  # no name, or a module that has been made by hand
        return False
    for part in others:
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    return spec is not None


def refuse_while_importing() -> None:
    """Refuse a call of `serve` during an import, which would then never finish."""
    if _importing:
        raise RuntimeError(
            f"serve() was called while {_importing[-1]!r} was imported; "
            'call it below: if __name__ == "__main__":'
        )


def _module_of(path: str) -> str:
    """Make the module in a file importable, and return its dotted name."""
    name, path = path, os.path.abspath(path)
    if not os.path.isfile(path):
        with_suffix = path + ".py"
        if not os.path.isfile(with_suffix):
            module = "" if os.sep in name else f" and no module {name!r}"
            raise ApplicationNotFound(f"there is no file {path}{module}")
        path = with_suffix
    folder, file = os.path.split(path)
    stem, suffix = os.path.splitext(file)
    if suffix != ".py" or "." in stem:
        return _load_file(path, file.replace(".", "_"))
    parts = [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        parts.insert(0, package)
    if parts[-1] == "__init__":
        parts.pop()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return _beside_the_standard_library(".".join(parts))


def _beside_the_standard_library(name: str) -> str:
    """Return the name of the module to import. A user's code.py gets another name if Python's own module of
    this name is already imported."""
    ours = sys.modules.get(name)
    if ours is not None and name in sys.stdlib_module_names:
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin and spec.origin != getattr(ours, "__file__", None):
            return _load_file(spec.origin, f"{name}_py")
    return name


def _load_file(path: str, name: str) -> str:
    """Load a file as the module with that name, and return the name."""
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ApplicationFailed(own_traceback(error)) from None
    return name


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise ApplicationFailed(own_traceback(error)) from None
        parent, _, last = name.rpartition(".")
        if parent and error.name == name and hasattr(sys.modules.get(parent), last):
            raise ApplicationNotFound(
                f"{last!r} is an attribute of module {parent!r}: write {parent}:{last}"
            ) from None
        looked = ", ".join(filter(None, sys.path[:3]))
        raise ApplicationNotFound(f"there is no module {error.name!r} (searched in {looked} ...)") from None
    except Exception as error:
        raise ApplicationFailed(own_traceback(error)) from None


def _evaluate(module: ModuleType, expression: str) -> Any:
    """Return the dotted attribute, or the result of the factory."""
    attribute, parenthesis, _ = expression.partition("(")
    found: Any = module
    for part in attribute.strip().split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))]
            raise ApplicationNotFound(
                f"module {module.__name__!r} has no attribute {attribute!r}; "
                f"it has {', '.join(names[:8]) or 'nothing that could be served'}"
            ) from None
    if not parenthesis:
        return found
    args, kwargs = _arguments(expression)
    _check_call(f"{module.__name__}:{attribute}", found, args, kwargs)
    try:
        made = found(*args, **kwargs)
    except Exception as error:
        raise ApplicationFailed(own_traceback(error)) from None
    if hasattr(made, "close") and hasattr(made, "cr_frame"):
        made.close()
        raise ApplicationNotFound(
            f"{module.__name__}:{attribute} is an async function; a factory must not be async: write one "
            "that returns the application"
        )
    return made


def _check_call(name: str, factory: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise ApplicationNotFound if the factory cannot be called with these arguments."""
    import inspect  # not everybody has a factory

    if not callable(factory):
        raise ApplicationNotFound(
            f"{name} is not a function that returns the application, but {factory!r}; if this is the "
            "application, leave out () and --factory"
        )
    try:
        inspect.signature(factory).bind(*args, **kwargs)
    except TypeError as error:
        if takes(factory, len(WSGI)) or takes(factory, len(ASGI)):
            advice = "if it is the application itself, leave out () and --factory"
        else:
            advice = "write its arguments, which are literals: 'module:create_app(\"production\")'"
        raise ApplicationNotFound(
            f"{name} cannot be called with these arguments: {error}; {advice}"
        ) from None
    except ValueError:  # a callable in C may have no signature
        pass


def _arguments(call: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the literals in the parentheses of a factory's call."""
    import ast

    try:
        parsed = ast.parse(call.strip(), mode="eval").body
        if isinstance(parsed, ast.Call):
            named = {
                keyword.arg: ast.literal_eval(keyword.value) for keyword in parsed.keywords if keyword.arg
            }
            if len(named) == len(parsed.keywords):
                return [ast.literal_eval(argument) for argument in parsed.args], named
    except (SyntaxError, ValueError):
        pass
    raise ApplicationNotFound(f"{call!r} cannot be called; write factory(), with literals only as arguments")


def own_traceback(error: BaseException) -> str:
    """Return the traceback of an exception from an application's code, without the frames of syncless and
    importlib that called it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and _leads_there(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    import traceback  # not everybody needs it

    return "".join(traceback.format_exception(type(error), error, trace))


def _leads_there(file: str) -> bool:
    return file.startswith(OURS) or "importlib" in file
