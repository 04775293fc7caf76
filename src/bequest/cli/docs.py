"""``bequest docs``: the pages of the documentation, wherever bequest is installed."""

from __future__ import annotations

from pathlib import Path

from bequest.cli.guard import not_found
from bequest.cli.terminal import Terminal, pairs

# The page to begin with comes first.
_FIRST = ("index", "does-this-help-me", "tutorial", "quickstart", "run-file", "choosing-a-will")


def show(page: str | None) -> None:
    """Print a page, or which there are."""
    pages = find()
    if page is None:
        rows = [[name, _title(path)] for name, path in pages.items()]
        Terminal().print(pairs(rows))
        print("\nbequest docs PAGE prints one of them.")
        return
    name = page.removesuffix(".md")
    if name not in pages:
        raise not_found("page", page, pages)
    print(pages[name].read_text("utf-8").rstrip())


def find() -> dict[str, Path]:
    """Return the pages by name, in the order in which they are listed."""
    package = Path(__file__).parents[1]
    folder = package / "docs"
    if not folder.is_dir():  # not installed, but used where it is developed
        folder = package.parents[1] / "docs"
    found = {path.stem: path for path in sorted(folder.glob("*.md"))}
    first = {name: found[name] for name in _FIRST if name in found}
    return first | found


def _title(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0].lstrip("# ")
