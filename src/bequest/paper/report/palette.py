"""Colours by role, for light and for dark; the same method has the same colour everywhere.

Okabe and Ito's palette, which people with any colour vision can tell apart, darkened on light
ground and lightened on dark ground until small text in these colours can be read.
"""

from __future__ import annotations

# role -> on light ground, on dark ground
_COLOURS = {
    "page": ("#fffefc", "#11151b"),
    "panel": ("#f6f4ef", "#191f27"),
    "ink": ("#1b2230", "#e7eaef"),
    "muted": ("#5a6371", "#9fa9b7"),
    "faint": ("#b9bfc8", "#55606f"),
    "grid": ("#e6e5e1", "#272e38"),
    "classic": ("#39414e", "#cfd5dd"),
    "gt-c": ("#0069a8", "#63b5ee"),
    "gt-m": ("#00795a", "#41cfa0"),
    "gt-p": ("#a8437f", "#e88fc6"),
    "legacy": ("#c04a00", "#ff9350"),
    "drift": ("#6b45b8", "#b9a0f5"),
    "full": ("#00727f", "#4fc8d6"),
    "admm": ("#7a6500", "#d3bd55"),
    "good": ("#1a6e43", "#6fd6a0"),
    "better": ("#1f5fa8", "#86bdf7"),
    "differs": ("#944600", "#ffb169"),
}
LIGHT = {role: light for role, (light, _) in _COLOURS.items()}
DARK = {role: dark for role, (_, dark) in _COLOURS.items()}
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
    "2 vectors": "muted",
    "all branches": "muted",
    **{f"Drift({rank})": "drift" for rank in (0, 1, 2, 4, 8)},
    "Drift(4), secant": "drift",
    "FullHessian": "full",
    "ADMM": "admm",
    "certified": "muted",
    "paper's oracle": "ink",
    "always consensus": "gt-c",
    "observed, with drift": "drift",
}
# how nodes iterate
ITERATIONS = {
    "gradient tracking": "gt-c",
    "gradient tracking, the setup's step": "gt-c",
    "DIGing": "muted",
    "EXTRA": "gt-m",
    "exact diffusion": "gt-p",
    "ADMM": "admm",
    "NIDS": "legacy",
    "NIDS-H": "drift",
    "DGD": "classic",
}


def declarations(colours: dict[str, str]) -> str:
    """Return the colours as CSS custom properties."""
    return "".join(f"--{role}:{colour};" for role, colour in colours.items())
