"""A patched function tells the original's signature, and takes all that the original takes."""

from tests.programs import run_unchecked

PROGRAM = """
import inspect
from syncless._core.cpython.functions import original_of
from syncless.patches import patch_all, registry

replaced = []

def record(method):
    def recorded(self, owner, name, new, why, **kept):
        old = vars(owner).get(name)
        method(self, owner, name, new, why, **kept)
        if old is not None:
            replaced.append((f"{owner.__name__}.{name}", original_of(old), vars(owner)[name]))
    return recorded

for method in "member", "member_in_place", "member_of_module", "rebind":
    setattr(registry.Patcher, method, record(getattr(registry.Patcher, method)))
patch_all(cpu=True)

def signature(function, follow_wrapped):
    function = getattr(function, "__func__", function)
    try:
        return inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):
        return None  # not told, or passed on as they come

def parameters(signature):
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()]

def calls(signature):
    "As many arguments as it takes, by position and by name, and as few."
    kinds = inspect.Parameter
    each = signature.parameters.values()
    by_place = [one for one in each if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    only = [one for one in by_place if one.kind is kinds.POSITIONAL_ONLY or one.name == "self"]
    named = [one for one in each if one.kind is kinds.KEYWORD_ONLY]
    yield by_place, named
    yield only, [one for one in by_place if one not in only] + named
    needed = [one for one in by_place if one.default is kinds.empty]
    yield needed, [one for one in named if one.default is kinds.empty]

def error(function, places, names):
    "What it says of arguments that nothing can take."
    try:
        function(*(nothing for _ in places), **{each.name: nothing for each in names})
    except Exception as error:
        return type(error), str(error)

nothing, compared = object(), 0
for name, old, new in replaced:
    original = signature(old, False)
    if original is None or isinstance(old, type):
        continue
    shown = signature(new, True)
    if shown is None or parameters(shown) != parameters(original):
        print(name, original, "is shown as", shown)
    own = signature(new, False) if hasattr(new, "__code__") else None
    if own is None and name.partition(".")[0] not in ("builtins", "_thread", "sys"):  # which take everything
        compared += 1
        for places, names in filter(any, calls(original)):  # without any it would be done
            errors = error(old, places, names), error(new, places, names)
            if errors[0] != errors[1] and (errors[0][0] != errors[1][0] or "keyword" in errors[1][1]):
                print(name, *errors)
    for places, names in calls(original) if own is not None else ():
        try:
            own.bind(*places, **{each.name: each for each in names})
        except TypeError as error:
            print(name, own, error)
print(len(replaced) > 150, compared)
"""


def test_patched_functions_have_the_signatures_of_the_originals():
    done = run_unchecked(PROGRAM)
    lines = done.stdout.splitlines()
    assert len(lines) == 1 and not done.stderr, done.stdout + done.stderr
    many, compared = lines[0].split()
    assert many == "True" and int(compared) > 50
