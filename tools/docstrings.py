"""Docstrings as the site shows them: what one can type is code, not a quotation."""

import re

import griffe

# A line that is typed, and everything up to the next empty line.
_TYPED = re.compile(r"^(>>> .*?)(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences examples."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of anything that has one."""
        if obj.docstring is not None:
            obj.docstring.value = _TYPED.sub(r"```pycon\n\1\n```", obj.docstring.value)
