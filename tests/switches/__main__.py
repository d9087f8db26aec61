"""Says where C values are used that were looked at before others ran: ``python -m tests.switches``.

Between a look and its use nothing else may run. A pointer that was compared with NULL may be NULL again, or
freed, after a call that lets other tasklets run; a descriptor may be somebody else's. And a function of C
that may return NULL is believed only after a look. Cython's own front end makes the typed trees of all native
modules. They are walked in the order of evaluation. Three questions are asked.

*Which functions may switch?* One that calls a Python object, imports, drops what an attribute or a list holds
(its finaliser may run anything), or calls another that may. A method counts with all that override it. NEVER
lists calls that look so and do not.

*What is used after that without a new look?* A local pointer or descriptor that was loaded from where it may
be freed, closed or moved: load it again. A field that may be NULL or None: compare it again. What a function
uses without a look of its own is the duty of its callers, so the path from a look to a use may lead through
several. An object that only a pointer, or a field that changes, refers to, and a method of it that may
switch: keep the object in a local variable, for Cython does not.

*Which result may be NULL?* That of each function of C that returns a pointer and is not in NOT_NULL. Files of
C are asked that, too (results.py).

All tables are in tables.py, with a reason for each line. What the check does not see: finalisers that the
collector runs when a container is made, those of local variables at the end of a function, properties and
operators of foreign objects, and whether a look is the right one.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from tests.switches import results
from tests.switches.program import Program

ROOT = pathlib.Path(__file__).parent.parent.parent


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.switches", description=(__doc__ or "").partition("\n")[0]
    )
    options.add_argument("--list", action="store_true", help="show the functions that may switch, and why")
    options.add_argument("paths", nargs="*", type=pathlib.Path, default=[ROOT / "syncless"])
    given = options.parse_args()
    program = Program()
    modules = [path for each in given.paths for path in ([each] if each.is_file() else each.rglob("*.pyx"))]
    program.read(sorted(modules), ROOT)
    program.study()
    for name, function in sorted(program.functions.items()) if given.list else ():
        print(f"{name}: {function.switch or 'does not switch'}")
    found = sorted(program.findings)
    for each in given.paths:
        found += results.check(each, ROOT)
    for path, line, text in found:
        print(f"{path}:{line}: {text}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
