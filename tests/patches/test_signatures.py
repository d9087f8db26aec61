"""A patched function takes the keywords that the original takes."""

import subprocess
import sys

PROGRAM = """
import inspect
from syncless.patches import patch_all, registry

replaced = []

def record(method):
    def recorded(self, owner, name, new, why):
        old = vars(owner).get(name)
        method(self, owner, name, new, why)
        if old is not None:
            replaced.append((f"{owner.__name__}.{name}", old, new))
    return recorded

for method in "member", "member_in_place", "member_of_module", "rebind":
    setattr(registry.Patcher, method, record(getattr(registry.Patcher, method)))
patch_all(cpu=True)

def parameters(function):
    function = getattr(function, "__func__", function)
    try:
        return inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return ()  # not told, or passed on as they come

def by_name(function):
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return [each.name for each in parameters(function) if each.kind in kinds and each.name != "self"]

for name, old, new in replaced:
    takes = parameters(new)
    if not takes or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes):
        continue
    missing = [each for each in by_name(old) if each not in by_name(new)]
    if missing:
        print(name, *missing)
print(len(replaced) > 150)
"""


def test_patched_functions_take_the_keywords_of_the_originals():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")
