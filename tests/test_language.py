"""Plain English: no sentence of the docs, of a string or of a comment begins with who or what.

A machine sees only the commonest relapses. CONTRIBUTING.md has the rules.
"""

import ast
import io
import pathlib
import re
import tokenize

import pytest

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ("syncless", "examples", "benchmark", "documentation")
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".pyi", ".pyx", ".pxd", ".h", ".c") and path.name != "test_language.py"
] + [ROOT / "setup.py"]
UNREVISED: list[str] = []
"""Files whose comments still have such sentences."""
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), ROOT / "benchmark" / "README.md"]

NEVER = (
    r"\b(?:whoever|whom|how[ ]manieth|(?:for|after|takes)[ ]so[ ]many|so[ ]many[ ](?:seconds|bytes|times))\b"
)
SENTENCE = re.compile(
    rf"""(?:^\s*(?:[-*]\s|\d+\.\s|\|\s)?  # the beginning of a text, an item or a row
    |(?<=[.!?|]\s)|(?<=[.!?]\s\s))  # or of a sentence
    (?:Who|What|Whoever|Whatever)\s
    [^.?!|]*(?:[.!|]|$)  # and no question
    |(?i:{NEVER})""",
    re.VERBOSE,
)
CLAUSE = re.compile(
    rf"(?:^|(?<=[:;.]\s)|(?<=-\s))(?:who|what)(?:ever)?\s(?!if\b)[^?]*$|{NEVER}", re.IGNORECASE
)
"""In a comment: "what is left", "a heap: who is next". Comments often begin with a small letter."""
CYTHON = re.compile(
    r"""\"{3}(?P<text>.*?)\"{3} | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?P<comment>(?:(?<!\S)\#:?[ ][^\n]*(?:\n[ \t]*(?=\#[ ]))?)+)""",
    re.DOTALL | re.VERBOSE,
)
C = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*(?P<text>.*?)\*/|//(?P<comment>[^\n]*)', re.DOTALL)


def found_in(text, pattern=SENTENCE):
    return [" ".join(match[0].split()) for match in pattern.finditer(text)]


def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text())))


def strings_of(path):
    """The strings of a Python file; of any other file its docstrings."""
    if path.suffix not in (".py", ".pyi"):
        return [match["text"] for match in CYTHON.finditer(path.read_text()) if match["text"]]
    return [
        node.value for node in nodes_of(path) if isinstance(node, ast.Constant) and type(node.value) is str
    ]


def docstrings_of(path):
    """With the texts below constants and fields."""
    bodies = [getattr(node, "body", None) for node in nodes_of(path)]
    statements = [statement for body in bodies if isinstance(body, list) for statement in body]
    values = [statement.value for statement in statements if isinstance(statement, ast.Expr)]
    return [value.value for value in values if isinstance(value, ast.Constant) and type(value.value) is str]


def comments_of(path):
    """The comments of a source file, and its docstrings; lines of one comment are joined."""
    source = path.read_text()
    if path.suffix not in (".py", ".pyi"):
        pattern = CYTHON if path.suffix in (".pyx", ".pxd") else C
        found = [match["text"] or match["comment"] or "" for match in pattern.finditer(source)]
        return [re.sub(r"(?m)^\s*(?:#:?|\*) ?", "", text).strip() for text in found]
    joined, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            text = token.string.lstrip("#: ")
            if alone and last == (token.start[0] - 1, token.start[1]):
                joined[-1] += " " + text
            else:
                joined.append(text)
            last = token.start if alone else None
    return joined + docstrings_of(path)


def prose_of(path):
    """A page without code and headings, its paragraphs joined."""
    text = re.sub(r"^```.*?^```|^#.*?$|`[^`]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.)\s)", text)


@pytest.mark.parametrize("folder", [*FOLDERS, "setup.py"])
def test_sentences_of_the_sources_are_plain_english(folder):
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] == folder and str(path.relative_to(ROOT)) not in UNREVISED
        for sentence in [
            *(sentence for text in strings_of(path) for sentence in found_in(text)),
            *(clause for text in comments_of(path) for clause in found_in(" ".join(text.split()), CLAUSE)),
        ]
    ]
    assert not found, "\n".join(found)


def test_names_of_tests_are_plain_english():
    names = [
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef)
    ]
    assert len(names) > 1000
    wrong = re.compile(r"test_(?:who|what)_|_(?:whoever|whom)(?:_|$)")
    assert not [name for name in names if wrong.search(name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_of_the_documentation_are_plain_english(page):
    found = [sentence for paragraph in prose_of(page) for sentence in found_in(paragraph)]
    assert not found, "\n".join(found)


def test_helps_of_make_are_plain_english():
    helps = re.findall(r"^[a-z-]+:.*?##\s*(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(helps) > 5 and not [text for text in helps if re.match(r"(?i)(?:who|what)(?:ever)?\b", text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What a client may cost. Give another one.", ["What a client may cost."]),
        ("It ends. Whoever waits\ngoes on.", ["Whoever waits goes on."]),
        ("| Who is believed | `--trusted` |", ["| Who is believed |"]),
        ("It waits for so many seconds.", ["for so many"]),
        ("What is it? It waits.", []),
        ("Somewhat. The way in which What is used.", []),
    ],
)
def test_relapses_are_found(text, found):
    assert found_in(text) == found


@pytest.mark.parametrize(
    ("suffix", "source", "found"),
    [
        ("py", "x = 1  # what is left\n", ["what is left"]),
        ("py", "# A heap:\n# who is next\nx = '# what'\n", ["who is next"]),
        ("py", 'def f():\n    """Lock of f: whoever has it."""\n', ["whoever has it."]),
        ("py", "# is it what you want?\n# what if it is?\n", []),
        ("pyx", "cdef int x  # what is left\n", ["what is left"]),
        ("pyx", '# A heap\ncdef f():\n    """Who is next."""\n', ["Who is next."]),
        ("pyx", "# A heap:\n# who is next\nx = '# what'\n", ["who is next"]),
        ("pxd", "int x  # the Loop to whom it belongs\n", ["whom"]),
        ("c", 'char *x = "/* what */"; /* what is left */\n', ["what is left"]),
        ("h", "/* A list:\n * who is next */\n", ["who is next"]),
    ],
)
def test_relapses_in_comments_are_found(tmp_path, suffix, source, found):
    path = tmp_path / f"file.{suffix}"
    path.write_text(source)
    assert [
        clause for text in comments_of(path) for clause in found_in(" ".join(text.split()), CLAUSE)
    ] == found
