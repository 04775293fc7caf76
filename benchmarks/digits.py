"""The demonstration over twenty seeds: the table of medians and worst cases of docs/digits.md.

``python benchmarks/digits.py`` prints it: percent of the test images that are right, and how many
points that is below nobody left on the same seed; the median (and the worst), beside the largest
farewell in vectors and bytes. Half a minute per seed. ``--first`` and ``--count`` take some of the
seeds only; what is done is kept in a file, so that the table can be computed in pieces.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from bequest.demo import digits

SEEDS = 20


def main() -> None:
    """Compute what is missing, and print the table once all seeds are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=SEEDS)
    parser.add_argument("--keep", type=Path, default=Path("out/digits.json"))
    given = parser.parse_args()
    known = json.loads(given.keep.read_text()) if given.keep.exists() else {}
    given.keep.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(given.first, given.first + given.count):
        if str(seed) not in known:
            known[str(seed)] = measured(seed)
            given.keep.write_text(json.dumps(known, indent=1))
    seeds = [str(seed) for seed in range(SEEDS)]
    missing = [seed for seed in seeds if seed not in known]
    print(f"missing: {', '.join(missing)}" if missing else table([known[seed] for seed in seeds]))


def measured(seed: int) -> dict[str, dict[str, list[float]]]:
    """Return, per schedule and will, the percentage that is right, and the largest farewell."""
    comparison = digits.study(seed)
    nobody = 100 * comparison.nobody_left.accuracy
    found: dict[str, dict[str, list[float]]] = {}
    for schedule in digits.SCHEDULES:
        found[schedule] = {"nobody left": [nobody, 0.0, 0.0]}
        for one in comparison.under(schedule):
            found[schedule][one.will] = [100 * one.score.accuracy, *one.sent]
    return found


def table(found: list[dict[str, dict[str, list[float]]]]) -> str:
    """Write it as docs/digits.md does."""
    rows = [
        "| | vectors | bytes | late | below | early | below |",
        "|---|---|---|---|---|---|---|",
    ]
    for will in found[0]["late"]:
        cells, sizes = [], []
        for schedule in digits.SCHEDULES:
            right = np.array([seed[schedule][will][0] for seed in found])
            nobody = np.array([seed[schedule]["nobody left"][0] for seed in found])
            sizes += [seed[schedule][will][1:] for seed in found]
            cells.append(f"{np.median(right):.1f} ({right.min():.1f})")
            below = nobody - right
            left = will == "nobody left"
            cells.append("" if left else f"{np.median(below):.1f} ({below.max():.1f})")
        vectors, size = np.max(sizes, axis=0)
        told = " | " if will == "nobody left" else f"{vectors:g} | {size:,.0f}"
        rows.append(f"| {will} | {told} | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
