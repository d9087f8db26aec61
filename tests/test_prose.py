"""Our prose uses the trade's words; what the check reads, and what it leaves alone."""

import pytest

from tests import prose

FOUND = {
    "page.md": "A call that\nholds up the loop. `kept connection` is code.\n\n```\nholds up\n```\n",
    "module.py": 'raise OSError("a call "\n    f"{name} holds "\n    "up the loop")\n',
    "native.pyx": '    """A call.\n\n    It holds up the loop."""\n',
    "server.conf": "listen holds up;  # holds up the loop\n",
}
LEFT = {
    "page.md": "# What holds up\n\n`holds up`, [a page](holds-up.md)\n\n```sh\necho holds up\n```\n",
    "module.py": 'holds = up  # holds up\nheader = b"holds up"\nanswers = {"answer": greeting}\n',
    "native.pyx": "cdef int holds, up  # holds up\n",
    "server.conf": "holds up;\n",
}
SENTENCES = {
    "The loop holds the requests up.": "block",
    "Two handlers give way.": "yield",
    "a kept connection": "keep-alive connection",
    "The proxy is believed.": "trust",
    "It sends an early answer.": "response",
    "The answers of a server": "response",
    "Its cure is a pool.": "fix",
    "the greeting of TLS": "handshake",
    "Clients are sent away.": "disconnect",
    "everything but for sockets": "except for, without",
    "It closes, and so do the others.": "name the subject first",
    "as RFC 9113 wants": "require, specify",
    "It tries again.": "attempt, retry",
    "It knows the insides of CPython.": "internals",
    "A list. What is in it is closed.": "name it with a noun",
}


def in_file(folder, name, text, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", folder)
    (folder / name).write_text(text)
    return list(prose.findings([folder / name]))


@pytest.mark.parametrize("name", FOUND)
def test_prose_is_read_across_lines_and_strings(name, tmp_path, monkeypatch):
    (found,) = in_file(tmp_path, name, FOUND[name], monkeypatch)
    assert found.endswith(": block")
    assert "holds up" in found


@pytest.mark.parametrize("name", LEFT)
def test_code_names_and_headings_are_left_alone(name, tmp_path, monkeypatch):
    assert in_file(tmp_path, name, LEFT[name], monkeypatch) == []


@pytest.mark.parametrize("sentence", SENTENCES)
def test_word_is_found_with_its_better_one(sentence, tmp_path, monkeypatch):
    (found,) = in_file(tmp_path, "page.md", sentence, monkeypatch)
    assert found.endswith(f": {SENTENCES[sentence]}")


@pytest.mark.parametrize(
    "sentence",
    [
        "The server answers with 404.",
        "A handler that answers.",
        "What does it cost?",
        "It recommends and secures.",
    ],
)
def test_verbs_and_questions_are_plain_english(sentence, tmp_path, monkeypatch):
    assert in_file(tmp_path, "page.md", sentence, monkeypatch) == []


def test_all_prose_uses_the_words_of_the_trade():
    assert list(prose.findings(prose.files())) == []


@pytest.mark.parametrize("entry", prose.ALLOWED)
def test_exception_is_needed(entry, monkeypatch):
    monkeypatch.delitem(prose.ALLOWED, entry)
    start, better = entry
    found = prose.findings([path for path in prose.files() if prose.name_of(path).startswith(start)])
    assert any(each.endswith(f": {better}") for each in found)
