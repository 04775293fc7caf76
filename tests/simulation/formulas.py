"""What a round of each method is, and when it is stable: dense matrices, one node at a time.

From the formulas alone, with nothing of how a node does it: a node's P is made of the curvature of
what it carries and of its own weight in the epoch that it is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.legacy import Legacy
    from bequest.core.methods import Method
    from bequest.model.objectives.base import Objective
    from bequest.protocol.node import Node

_TRACKING = ("gradient tracking", "DIGing")
_COUPLED = ("NIDS", "ADMM")


def bound(method: Method, objective: Objective, inherited: Legacy) -> np.ndarray:
    """M: above the Hessian of what a node minimises."""
    if getattr(method, "metric", "scalar") == "hessian":
        drawn = sum(part.evaluated.bound() for part in inherited.samples)
        return objective.bound() + inherited.hessian() + drawn
    top = float(np.linalg.eigvalsh(inherited.hessian())[-1])
    top += sum(part.evaluated.curvature.b for part in inherited.samples)
    return max(objective.curvature.b + top, 0.0) * np.eye(inherited.dim)


class Drawn:
    """The gradients of a node's own loss that it has to use: one for its entry, one per round.

    Where rounds take a few samples, (seed, node, incarnation, round) says which. If all are taken
    now and then, the rounds between correct that gradient by what has changed on their samples.

    Attributes:
        used: the gradient that it has used last, whatever has been handed over since.
    """

    def __init__(self, node: Node, x: np.ndarray, t: int) -> None:
        self._loss, self._who = node.objective, (node.ident, node.incarnation)
        self._whole: tuple[np.ndarray, np.ndarray] | None = None
        self.used = self.draw(x, t)

    def draw(self, x: np.ndarray, t: int) -> np.ndarray:
        """Return what round t has to use at x."""
        self.used = self._on_samples(x, t)
        return self.used

    def _on_samples(self, x: np.ndarray, t: int) -> np.ndarray:
        batch, every = getattr(self._loss, "batch", None), getattr(self._loss, "full_every", None)
        if batch is None or batch >= self._loss.samples:
            return self._loss.gradient(x)
        if every is not None and (self._whole is None or t % every == 0):
            self._whole = x, self._loss.gradient(x)
            return self._whole[1]
        rng = np.random.default_rng([self._loss.seed, *self._who, t])
        rows = np.sort(rng.choice(self._loss.samples, batch, replace=False, shuffle=False))
        gradient = self._loss.loss.batch_gradient(x, rows)
        if self._whole is None:
            return gradient
        at, whole = self._whole
        return gradient - self._loss.loss.batch_gradient(at, rows) + whole


@dataclass(frozen=True)
class Rule:
    """What a node goes by in an epoch.

    Attributes:
        method: how it iterates.
        epoch: which one it is.
        pace: the number that all have agreed on.
        weights: those of its neighbours; the rest is its own.
        M: above the Hessian of what it minimises.
    """

    method: Method
    epoch: int
    pace: float
    weights: Mapping[int, float]
    M: np.ndarray

    @property
    def coupling(self) -> float:
        if self.method.label in _COUPLED:
            return self.pace
        return getattr(self.method, "mixing", 0.5) / self.pace

    @property
    def P(self) -> np.ndarray:  # noqa: N802 - the letter of the formula
        dim = len(self.M)
        if self.method.label not in _COUPLED:
            return np.eye(dim) / self.pace
        spread = 1.58 * self.pace * sum(self.weights.values())
        least = self.M / (1.4 if self.method.metric == "hessian" else 1.9)
        if self.method.label == "ADMM":
            return least + spread * np.eye(dim)
        values, basis = np.linalg.eigh(least)
        return basis @ np.diag(np.maximum(values, spread)) @ basis.T

    def tells(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """What flows over an edge is a multiple of the difference of this."""
        if self.method.label in _TRACKING:
            return z
        if self.method.label in ("NIDS", "exact diffusion"):
            return x - np.linalg.solve(self.P, z)
        return x

    @property
    def share(self) -> float:
        """How much of that difference, times the weight of the edge, s gains."""
        return -1.0 if self.method.label in _TRACKING else self.coupling

    def follow(
        self,
        x: np.ndarray,
        z: np.ndarray,
        others: Mapping[int, tuple[Rule, np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the next x, and what s gains in the round."""
        m = self.tells(x, z)
        gain = sum(
            (
                self.share * weight * (m - others[node][0].tells(*others[node][1:]))
                for node, weight in self.weights.items()
            ),
            np.zeros_like(x),
        )
        if self.method.label == "gradient tracking":
            there = x - self.pace * z
            for node, weight in self.weights.items():
                _, x_other, z_other = others[node]
                there = there + weight * (x_other - x - self.pace * (z_other - z))
            return there, gain
        if self.method.label == "DIGing":
            there = x - self.pace * z
            for node, weight in self.weights.items():
                there = there + weight * (others[node][1] - x)
            return there, gain
        if self.method.label in ("NIDS", "exact diffusion"):
            return m - np.linalg.solve(self.P, gain), gain
        return x - np.linalg.solve(self.P, z + 2 * gain), gain


def instability(rules: Mapping[int, Rule]) -> str | None:
    """Return in what the pace of all members is too fast, if it is, on their graph."""
    nodes, (first, *_) = sorted(rules), rules.values()
    dim, kind = len(first.M), first.method.label
    W = np.zeros((len(nodes), len(nodes)))
    for row, node in enumerate(nodes):
        for other, weight in rules[node].weights.items():
            W[row, nodes.index(other)] = weight
        W[row, row] = 1 - sum(rules[node].weights.values())
    if kind in _TRACKING:
        lowest = float(np.linalg.eigvalsh(W)[0])
        limit = 2.0 if lowest >= 0 else min(2.0, (1 - lowest * lowest) / -lowest)
        if kind == "DIGing":
            limit = (1 + lowest) ** 2 / 2
        stiffest = max(float(np.linalg.eigvalsh(rule.M)[-1]) for rule in rules.values())
        # losses may differ, and half of the limit is what is used
        unsafe = first.pace * stiffest > 0.5 * limit * (1 + 1e-9)
        return f"step {first.pace} at smoothness {stiffest}, limit {limit}" if unsafe else None
    spread = first.coupling * np.kron(np.eye(len(nodes)) - W, np.eye(dim))
    P, M = np.zeros_like(spread), np.zeros_like(spread)
    for row, node in enumerate(nodes):
        block = slice(row * dim, (row + 1) * dim)
        P[block, block], M[block, block] = rules[node].P, rules[node].M
    adapts = kind in ("NIDS", "exact diffusion")
    demands = {"M < 2P": 2 * P - M, "3/4 c(I - W) <= P": P - 3 / 4 * spread}
    if not adapts:
        demands = {"M/2 + 3/4 c(I - W) < P": 2 * P - M - 3 / 2 * spread}
    for name, demand in demands.items():
        least = float(np.linalg.eigvalsh(demand)[0])
        if least < -1e-9 * float(np.abs(P).max()):
            return f"not {name}: {least}"
    return None
