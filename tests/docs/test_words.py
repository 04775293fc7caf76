"""Pages, docstrings, comments and messages are plain English; pages fit on a screen."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
# Nouns say which thing is meant. A run in which nobody leaves goes by that name in tables.
VAGUE = re.compile(
    r"\b(some(body|one)|every(body|one)|any(body|one)|whoever|no one|nobody(?! (leav|left)))\b",
    re.IGNORECASE,
)
LONGEST = 104
# Each line is a paragraph that a command makes of a docstring.
GENERATED = {"api.md", "errors.md"}
# A guideline has to name what it advises against.
ADVICE = {"CONTRIBUTING.md"}


def prose(text):
    """The lines of a page that are neither code nor tables nor pictures nor headings."""
    text = re.sub(
        r"^( *)```.*?^\1```",
        lambda m: "\n" * m[0].count("\n"),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    for number, line in enumerate(text.splitlines(), start=1):
        if not re.match(r"\s*(\||!\[|#|<)", line):
            yield number, line


def said(text):
    """What a module says to a reader: its strings, docstrings and messages among them; comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_which_thing_they_mean_on_lines_that_fit(page):
    for number, line in prose(page.read_text()):
        assert page.name in GENERATED or len(line) <= LONGEST, (number, line)
        words = re.sub(r"`.*?`", "", line)  # but for names
        assert page.name in ADVICE or not VAGUE.search(words), (number, line)


@pytest.mark.parametrize("folder", ["src", "tests", "examples", "benchmarks", "tools"])
def test_strings_and_comments_say_which_thing_they_mean(folder):
    found = [
        (str(path.relative_to(ROOT)), line, VAGUE.search(text)[0])
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != Path(__file__)
        for line, text in said(path.read_text())
        if VAGUE.search(text)
    ]
    assert not found


def test_examples_that_are_no_programs_say_which_thing_they_mean():
    for path in sorted((ROOT / "examples").rglob("*.toml")):
        assert not VAGUE.search(path.read_text()), path


def test_the_guard_reads_what_readers_read():
    text = 'def f():\n    "Nobody."\n    raise ValueError(f"{nobody} and somebody")  # for anyone\n'
    assert [(n, VAGUE.search(t)[0]) for n, t in said(text) if VAGUE.search(t)] == [
        (2, "Nobody"),
        (3, "somebody"),
        (3, "anyone"),
    ]


def test_what_is_vague_or_long_is_found():
    for words in ("Whoever it is", "that nobody knows", "told to no one", "if somebody\ncomes"):
        assert VAGUE.search(words)
    for words in ("nobody leaves", "Nobody left", "nobody leaving"):
        assert not VAGUE.search(words)
    page = "a\n```\n" + "b" * 200 + "\n```\n| c |\nd"
    assert [line for _, line in prose(page) if line] == ["a", "d"]
    assert dict(prose(page))[6] == "d"
