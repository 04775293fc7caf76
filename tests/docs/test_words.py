"""Pages and docstrings are plain English that fits on a screen."""

import ast
import re
from pathlib import Path

import pytest

import bequest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
SOURCE = Path(bequest.__file__).parent
# Nouns say which thing is meant. A run in which nobody leaves goes by that name in tables.
VAGUE = re.compile(
    r"\b(somebody|everybody|anybody|whoever|no one|nobody(?! (leav|left)))\b", re.IGNORECASE
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


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "the module"), ast.get_docstring(node) or ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_which_thing_they_mean_on_lines_that_fit(page):
    for number, line in prose(page.read_text()):
        assert page.name in GENERATED or len(line) <= LONGEST, (number, line)
        words = re.sub(r"`.*?`", "", line)  # but for names
        assert page.name in ADVICE or not VAGUE.search(words), (number, line)


def test_docstrings_say_which_thing_they_mean():
    found = [
        (str(path.relative_to(SOURCE)), name, VAGUE.search(text)[0])
        for path in sorted(SOURCE.rglob("*.py"))
        for name, text in docstrings(path)
        if VAGUE.search(text)
    ]
    assert not found


def test_what_is_vague_or_long_is_found():
    for words in ("Whoever it is", "that nobody knows", "told to no one", "if somebody\ncomes"):
        assert VAGUE.search(words)
    for words in ("nobody leaves", "Nobody left", "nobody leaving"):
        assert not VAGUE.search(words)
    page = "a\n```\n" + "b" * 200 + "\n```\n| c |\nd"
    assert [line for _, line in prose(page) if line] == ["a", "d"]
    assert dict(prose(page))[6] == "d"
