"""Which node holds which samples: ``bequest.partition``, from ``bequest.model.partition``."""

from bequest.model.partition import (
    by_column,
    by_label,
    dirichlet,
    first_component,
    holdout,
    iid,
    sorted_chunks,
)

__all__ = [
    "by_column",
    "by_label",
    "dirichlet",
    "first_component",
    "holdout",
    "iid",
    "sorted_chunks",
]
