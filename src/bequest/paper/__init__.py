"""The reproduction of the paper: its studies, its baseline and ablation, and the report on them.

Only ``bequest reproduce`` imports this package.
"""

# the studies, in the order of the report
NAMES = (
    "trajectories",
    "stress",
    "real",
    "compare",
    "curvature",
    "point-only",
    "handoff",
    "lower-bound",
    "convex",
    "crossover",
    "beyond",
    "rules",
    "robustness",
    "methods",
)
# computed only if asked for by name, and told in the terminal (``aside``)
ASIDE = ("early", "networks", "tables")
# and what is asked for with another one, which leaves out what it shows: exits before round 50
ALONG = {"beyond": "early"}
