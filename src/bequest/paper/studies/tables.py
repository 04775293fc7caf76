"""Tables in unequal silos: the model of pooled training, without departures and with them.

Three real tables and a made one with categories and missing values, in six silos each. Silos agree
on the preprocessing by sums, the pooled side has scikit-learn's own transformers. Told in the
terminal, by ``bequest reproduce tables``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import datasets, phases
from bequest.data import Table, select
from bequest.data.recipe import MISSING
from bequest.model import graphs, wills
from bequest.model.events import Departure
from bequest.paper.studies import setups
from bequest.paper.studies.study import Case, Findings, Study, seeded

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix
    from bequest.data import Samples
    from bequest.model.wills import Will

TABLES = ("breast cancer", "digits", "wine", "hospitals")
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
SILOS = 6
WILLS: dict[str, Will] = {
    "forget": wills.Classic(),
    "consensus": wills.Consensus(),
    "adaptive": wills.Adaptive(),
    "whole Hessian": wills.FullHessian(),
}
# The round of the first exit, and how many leave, two rounds apart.
TIMES = {"early": 5, "late": 100}
LEAVERS = (1, 3)
SEEDS = 10
_LABEL, _SILO = "label", "silo"
_CATEGORIES = {
    "sex": ("f", "m"),
    "ward": ("icu", "maternity", "medicine", "surgery"),
    "admitted": "agree",
}


def table_of(name: str, seed: int) -> tuple[Table, dict[str, Any]]:
    """Return a table with unequal silos, and what ``select`` has to be told about it."""
    if name == "hospitals":
        columns = datasets.hospitals(seed=seed)
        told = {"label": "died", "silo": "hospital", "categories": _CATEGORIES, "impute": "mean"}
        return Table(columns), told
    X, y = getattr(datasets, name.replace(" ", "_"))()
    shares = np.arange(1, SILOS + 1) / sum(range(1, SILOS + 1))
    owner = np.random.default_rng(seed).choice(SILOS, y.size, p=shares)
    columns = {f"x{place:02d}": column for place, column in enumerate(X.T)}
    return Table({**columns, _LABEL: y, _SILO: owner}), {"label": _LABEL, "silo": _SILO}


def samples_of(table: Table, told: dict[str, Any], seed: int) -> Samples:
    """Return what silos learn from; they agree on means and scales by sums along a ring."""
    return select(
        table,
        **told,
        bias="unpenalised",
        test_fraction=0.3,
        seed=seed,
        total=partial(phases.total, graph=graphs.ring(SILOS)),
    )


def pooled(table: Table, told: dict[str, Any], samples: Samples, strength: float) -> Matrix:
    """Return coefficients and intercept of scikit-learn on the pooled training rows.

    Nothing of ours is in it: imputation, scales and codes are scikit-learn's. Its features are put
    into the order of ours.
    """
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    coded = [*told.get("categories", {})]
    plain = [name for name in table.columns if name not in (*coded, told["label"], told["silo"])]
    numbers = np.column_stack([table.columns[name][samples.rows] for name in plain])
    scaled = make_pipeline(SimpleImputer(), StandardScaler()).fit_transform(numbers)
    gaps = MissingIndicator().fit(numbers)
    names, blocks = [*plain], [scaled, gaps.transform(numbers)]
    names += [f"{plain[place]} is missing" for place in gaps.features_]
    for name in coded:
        texts = np.array([cell or MISSING for cell in table.columns[name][samples.rows]])
        encoder = OneHotEncoder(sparse_output=False).fit(texts[:, None])
        names += [f"{name}={value}" for value in encoder.categories_[0]]
        blocks.append(encoder.transform(texts[:, None]))
    # the more exact one, but for the 650 unknowns of digits
    solver = "newton-cg" if len(samples.classes) > 3 else "newton-cholesky"
    model = LogisticRegression(C=strength, solver=solver, tol=1e-12, max_iter=100_000)
    model.fit(np.hstack(blocks), samples.y)
    # a category that was declared, and is in no training row, has no coefficient over there
    whole = np.zeros((model.coef_.shape[0], len(samples.features) + 1))
    whole[:, [samples.features.index(name) for name in names]] = model.coef_
    whole[:, -1] = model.intercept_
    return whole


def agreement(*, table: str) -> Findings:
    """Return how far coefficients are from those of pooled training, for every C."""
    from bequest.sklearn import SiloLogisticRegression

    given, told = table_of(table, seed=0)
    samples = samples_of(given, told, seed=0)
    found = {}
    for strength in STRENGTHS:
        model = SiloLogisticRegression(C=strength, rounds=10)
        model.fit(samples.X[:, :-1], samples.y, silos=samples.silo)
        ours = np.column_stack([model.coef_, model.intercept_])
        theirs = pooled(given, told, samples, strength)
        found[f"{strength:g}"] = float(np.abs(ours - theirs).max())
    return Findings({}, {"agreement": found})


def departures(*, table: str, seed: int) -> Findings:
    """Return how much test log-loss departures cost, by will, and the largest farewell."""
    from bequest.sklearn import SiloLogisticRegression

    samples = samples_of(*table_of(table, seed), seed=seed)
    X, y, exam, owner = samples.X[:, :-1], samples.y, samples.exam, samples.silo
    assert exam is not None and owner is not None  # noqa: S101, PT018 - so it was selected

    def loss(model: SiloLogisticRegression) -> float:
        likely = model.fit(X, y, silos=owner).predict_proba(exam.X[:, :-1])
        right = likely[np.arange(exam.y.size), exam.y]
        return -float(np.log(np.maximum(right, np.finfo(float).tiny)).mean())

    nobody = loss(SiloLogisticRegression(rounds=1))
    order = np.random.default_rng(seed).permutation(np.unique(owner)).tolist()
    found: dict[str, Any] = {}
    for leavers in LEAVERS:
        for time, first in TIMES.items():
            leaving = [Departure(one, first + 2 * k) for k, one in enumerate(order[:leavers])]
            costs = {}
            for name, will in WILLS.items():
                # what the survivors approach is settled when the last one has left
                model = SiloLogisticRegression(
                    departures=leaving, will=will, rounds=leaving[-1].round + 1
                )
                costs[name] = {"gap": loss(model) - nobody, **setups.largest(model.run_)}
            found[f"{leavers} {time}"] = costs
    return Findings({}, {"nobody left": nobody, "departures": found})


def measure(*, table: str, seed: int | None = None) -> Findings:
    """Return the agreement on one table, or what departures cost on it with one seed."""
    return agreement(table=table) if seed is None else departures(table=table, seed=seed)


def _cases(name: str) -> tuple[Case, ...]:
    return (Case(f"table-{name}_pooled", {"table": name}), *seeded(SEEDS, table=name))


STUDY = Study(
    "tables",
    tuple(case for name in TABLES for case in _cases(name)),
    measure,
    needs=("sklearn",),
)
