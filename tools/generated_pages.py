"""Pages, and parts of pages, that follow from the source: the errors, the API, the diagrams.

``make pages`` writes them into docs/, where `bequest docs` finds them; a test says when they are
stale.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import bequest
from bequest import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_NOTE = "<!-- Written by `make pages`; change the source instead. -->"
# Where the diagrams of a page come from: <!-- from ARCHITECTURE.md: heading -->.
_BORROWED = re.compile(r"(<!-- from ARCHITECTURE\.md: (.+?) -->\n)```mermaid\n.*?```", re.DOTALL)


# --- errors --------------------------------------------------------------------------------


def errors_page() -> str:
    """Every error: what it means, and what its texts say and advise."""
    raised = _texts()
    lines = [
        "# Errors",
        "",
        _NOTE,
        "",
        "Every error that bequest raises on purpose is a `BequestError`. Its text says what",
        "happened and where; its `remedy` says what to do about it. What is wrong with the input",
        "is known before anything is computed: those are `InvalidInput`, and also `ValueError`.",
        "",
        "```",
        *(
            line.removeprefix("    ")
            for line in inspect.getdoc(errors).split("::\n\n")[1].splitlines()
        ),
        "```",
        "",
        "Below are the texts as the source has them, those of models of torch and JAX among them;",
        "`...` stands for what differs from case to case.",
    ]
    for kind in _tree(errors.BequestError):
        base = kind.__mro__[1].__name__
        lines += ["", f"## {kind.__name__}", "", f"A kind of `{base}`. {inspect.getdoc(kind)}"]
        examples = raised.get(kind.__name__, [])
        if examples:
            lines += ["", "| it says | what to do |", "|---|---|"]
            lines += [f"| {_cell(what)} | {_cell(todo)} |" for what, todo in examples]
    return "\n".join(lines) + "\n"


def _tree(kind: type) -> Iterator[type]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _tree(derived)


def _cell(text: str) -> str:
    clean = " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
    return re.sub(r"<(?=[a-zA-Z/])", "&lt;", clean)


def _texts() -> dict[str, list[tuple[str, str]]]:
    """Return, by the name of an error, what it says and advises where it is raised."""
    names = {kind.__name__ for kind in _tree(errors.BequestError)}
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((ROOT / "src" / "bequest").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            remedies = [word.value for word in call.keywords if word.arg == "remedy"]
            if call.func.id not in names or not remedies or not call.args:
                continue
            what, remedy = _text(call.args[0]), _text(remedies[0])
            told = found.setdefault(call.func.id, [])
            if what and remedy and (what, remedy) not in told:
                told.append((what, remedy))
    return found


def _text(node: ast.expr) -> str:
    """Return a text as it stands in the source, with ... for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "..." for part in node.values]
        return "".join(map(str, parts))
    return ""


# --- the API -------------------------------------------------------------------------------


def public_names() -> dict[str, list[str]]:
    """Return the public names by room; the first room is the package itself."""
    rooms = {
        name: getattr(bequest, name)
        for name in bequest.__all__
        if isinstance(getattr(bequest, name), ModuleType)
    }
    own = [name for name in bequest.__all__ if name not in rooms and not name.startswith("_")]
    found = {"bequest": own}
    for name, room in rooms.items():
        listed = getattr(room, "__all__", None) or [
            one
            for one, thing in vars(room).items()
            if not one.startswith("_") and getattr(thing, "__module__", "") == room.__name__
        ]
        found[f"bequest.{name}"] = sorted(listed)
    return found


def api_page() -> str:
    """Every public name and what it is, in one line; the site adds the whole of it."""
    lines = [
        "# API reference",
        "",
        _NOTE,
        "",
        "Every public name, room by room. In Python `help(...)` says more,",
    ]
    lines += ["and so does the site, which `make docs` builds."]
    for room, names in public_names().items():
        lines += ["", f"## {room}"]
        about = inspect.getdoc(importlib.import_module(room)) or ""
        if room != "bequest":
            lines += ["", about.split("\n\n")[0].replace("\n", " ")]
        if room == "bequest.errors":
            lines += ["", "See [errors](errors.md)."]
            continue
        for name in names:
            thing = getattr(importlib.import_module(room), name)
            said = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                said = f"A type: `{thing}`.".replace("typing.", "").replace(
                    "bequest.model.events.", ""
                )
            if room != "bequest" and getattr(bequest, name, None) is thing:
                lines += ["", f"### {name}", "", f"The same as `bequest.{name}`."]
                continue
            lines += ["", f"### {name}", "", f"`{room}.{name}`. {said}"]
    return "\n".join(lines) + "\n"


# --- diagrams ------------------------------------------------------------------------------


def with_diagrams(text: str) -> str:
    """Return a page with the diagrams of ARCHITECTURE.md as they are now."""
    house = (ROOT / "ARCHITECTURE.md").read_text("utf-8")

    def current(found: re.Match[str]) -> str:
        section = house.split(f"{found[2]}\n", 1)[1]
        diagram = re.search(r"```mermaid\n.*?```", section, re.DOTALL)
        assert diagram is not None, found[2]
        return found[1] + diagram[0]

    return _BORROWED.sub(current, text)


def pages() -> dict[Path, str]:
    """Return every page that follows from the source, as it should be."""
    concepts = DOCS / "concepts.md"
    return {
        DOCS / "errors.md": errors_page(),
        DOCS / "api.md": api_page(),
        concepts: with_diagrams(concepts.read_text("utf-8")),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
        print(path.relative_to(ROOT))
