"""The page: one file that holds the data, the style and the scripts, and asks for nothing."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# The scripts, each after those that it needs.
SCRIPTS = (
    "words.js",
    "story.js",
    "palette.js",
    "clock.js",
    "network.js",
    "charts.js",
    "tree.js",
    "timeline.js",
    "details.js",
    "tables.js",
    "news.js",
    "main.js",
)
# What the page may load: nothing. A page that is served hears of news from where it came from.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; connect-src {}"
)
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\./[a-z]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:class|function|const) (\w+))", re.MULTILINE)


def page_of(staged: Mapping[str, Any]) -> bytes:
    """Return the page that shows this."""
    data = json.dumps(staged, allow_nan=False, separators=(",", ":"))
    parts = {
        "policy": _POLICY.format("'self'" if staged["live"] else "'none'"),
        "style": _asset("page.css"),
        # No text in it can end the element that it is in.
        "data": data.replace("<", "\\u003c"),
        "script": bundled(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html")).encode()


def bundled() -> str:
    """Return the scripts as one: modules need a server, and this is to be read from a file."""
    return "\n".join(['"use strict";', "const modules = {};", *map(_module, SCRIPTS)])


def _module(name: str) -> str:
    """Return a module as a function of its own, which returns what it exports."""
    text = _IMPORT.sub(r'const \1 = modules["\2"];', _asset(name))
    exported = ", ".join(found[2] for found in _EXPORT.finditer(text))
    body = _EXPORT.sub(r"\1", text)
    return f'modules["./{name}"] = (() => {{\n{body}return {{ {exported} }};\n}})();'


def _asset(name: str) -> str:
    return (resources.files("bequest.view") / "assets" / name).read_text("utf-8")
