"""What mkdocs does not do by itself: pages that are not in the menu, the API in full, diagrams.

Diagrams are drawn here, as SVG: the usual way loads a script from elsewhere.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generated_pages import public_names

_FENCE = re.compile(r"```mermaid\n(sequenceDiagram|stateDiagram-v2)\n(.*?)```", re.DOTALL)
_WIDE, _TALL, _TOP, _LETTER = 124, 34, 46, 5.8


def on_config(config):
    """Put pages that the menu does not name among the how-tos."""
    docs = Path(config["docs_dir"])
    named = set(re.findall(r"[\w-]+\.md", str(config["nav"])))
    others = sorted(path.name for path in docs.glob("*.md") if path.name not in named)
    for part in config["nav"]:
        if "How-to" in part:
            part["How-to"] += others
    return config


def on_page_markdown(markdown, page, **_):
    """Complete the API, and draw the diagrams."""
    if page.file.src_uri == "concepts.md":
        page.meta["hide"] = ["toc"]  # the diagrams are wide
    if page.file.src_uri == "api.md":
        markdown = _whole_api(markdown)
    # Outside docs/ there are no pages: what is in the source tree is named, not linked.
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)
    return _FENCE.sub(lambda found: _drawn(found[1], found[2]), markdown)


def _whole_api(markdown: str) -> str:
    for room, names in public_names().items():
        for name in names:
            line = f"`{room}.{name}`. "
            start = markdown.find(line)
            if start >= 0 and "A type: " not in markdown[start : start + len(line) + 8]:
                end = markdown.index("\n", start)
                options = "    options:\n      show_root_heading: false\n      heading_level: 4\n"
                markdown = f"{markdown[:start]}::: {room}.{name}\n{options}{markdown[end:]}"
    return markdown


def _drawn(kind: str, text: str) -> str:
    drawing = _sequence(text) if kind == "sequenceDiagram" else _states(text)
    return f'<div class="diagram" markdown="0">\n{drawing}\n</div>'


def _sequence(text: str) -> str:
    """Draw who says what to whom, one line below the other."""
    declared = re.findall(r"participant (\w+)(?: as (.+))?", text)
    names = {name: title or name for name, title in declared}
    steps = re.findall(r"^ +(?:(\w+)->>(\w+)|Note over ([\w,]+)): (.+)$", text, re.MULTILINE)
    place = {name: _WIDE // 2 + 10 + _WIDE * k for k, name in enumerate(names)}
    width, height = _WIDE * len(names) + 20, _TOP + _TALL * len(steps) + 16
    parts = []
    for name, title in names.items():
        x = place[name]
        parts.append(f'<line class="life" x1="{x}" y1="30" x2="{x}" y2="{height}"/>')
        parts.append(f'<rect x="{x - 58}" y="4" width="116" height="26" rx="6"/>')
        parts.append(f'<text x="{x}" y="21" class="who">{html.escape(title)}</text>')
    for k, (sender, receiver, over, said) in enumerate(steps):
        y = _TOP + _TALL * k + 18
        ends = [place[one] for one in (over.split(",") if over else (sender, receiver))]
        middle = (min(ends) + max(ends)) / 2
        if sender == receiver and not over:
            x = ends[0]
            parts.append(f'<path class="call" d="M{x} {y - 6}h22v10h-18"/>')
            middle = x + 28 + len(said) * _LETTER / 2
        elif not over:
            step = 5 if ends[1] > ends[0] else -5
            parts.append(f'<path class="call" d="M{ends[0]} {y}H{ends[1] - step}"/>')
            tip = f"M{ends[1]} {y}l{-2 * step} -4v8z"
            parts.append(f'<path class="tip" d="{tip}"/>')
        half = len(said) * _LETTER / 2
        middle = min(max(middle, half + 4), width - half - 4)
        label = "note" if over else "said"
        parts.append(
            f'<text x="{middle:.0f}" y="{y - 5}" class="{label}">{html.escape(said)}</text>'
        )
    return _svg(width, height, "".join(parts), "Sequence: " + ", ".join(names.values()))


def _states(text: str) -> str:
    """List which state follows which, and on what."""
    rows = re.findall(r"^ +(\S+) --> (\S+?)(?:: (.+))?$", text, re.MULTILINE)
    told = "".join(
        f"<tr><td>{html.escape(_state(one))}</td><td>{html.escape(why)}</td>"
        f"<td>{html.escape(_state(other))}</td></tr>"
        for one, other, why in rows
    )
    head = "<tr><th>from</th><th>on</th><th>to</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{told}</tbody></table>"


def _state(name: str) -> str:
    return "(beginning or end)" if name == "[*]" else name


def _svg(width: int, height: int, content: str, about: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{html.escape(about)}" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
    )
