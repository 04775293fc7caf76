"""Colours by role, for light and for dark; the same method has the same colour everywhere.

Okabe and Ito's palette, which people with any colour vision can tell apart, darkened on light
ground and lightened on dark ground until small text in these colours can be read.
"""

from __future__ import annotations

LIGHT = {
    "page": "#fffefc",
    "panel": "#f6f4ef",
    "ink": "#1b2230",
    "muted": "#5a6371",
    "faint": "#b9bfc8",
    "grid": "#e6e5e1",
    "classic": "#39414e",
    "gt-c": "#0069a8",
    "gt-m": "#00795a",
    "gt-p": "#a8437f",
    "legacy": "#c04a00",
    "drift": "#6b45b8",
    "full": "#00727f",
    "admm": "#7a6500",
    "good": "#1a6e43",
    "better": "#1f5fa8",
    "differs": "#944600",
}
DARK = {
    "page": "#11151b",
    "panel": "#191f27",
    "ink": "#e7eaef",
    "muted": "#9fa9b7",
    "faint": "#55606f",
    "grid": "#272e38",
    "classic": "#cfd5dd",
    "gt-c": "#63b5ee",
    "gt-m": "#41cfa0",
    "gt-p": "#e88fc6",
    "legacy": "#ff9350",
    "drift": "#b9a0f5",
    "full": "#4fc8d6",
    "admm": "#d3bd55",
    "good": "#6fd6a0",
    "better": "#86bdf7",
    "differs": "#ffb169",
}
METHODS = {
    "classic": "classic",
    "GT-C": "gt-c",
    "GT-M": "gt-m",
    "GT-P": "gt-p",
    "Legacy-GT": "legacy",
}
# beyond the paper: a colour per family, and one per rule
WILLS = {
    **METHODS,
    "forgetful": "classic",
    "observed": "legacy",
    "Drift(0)": "drift",
    "Drift(1)": "drift",
    "Drift(2)": "drift",
    "Drift(4)": "drift",
    "Drift(8)": "drift",
    "Drift(4), secant": "drift",
    "FullHessian": "full",
    "ADMM": "admm",
    "certified": "muted",
    "paper's oracle": "ink",
    "always consensus": "gt-c",
    "observed, with drift": "drift",
}


def declarations(colours: dict[str, str]) -> str:
    """Return the colours as CSS custom properties."""
    return "".join(f"--{role}:{colour};" for role, colour in colours.items())
