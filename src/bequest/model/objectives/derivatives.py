"""Whether a gradient is the derivative of its value, as far as the precision of both can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import EPSILON, norm
from bequest.errors import GradientMismatch, InvalidObjective, NotFinite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bequest.core.arrays import Matrix, Vector

    Evaluate = Callable[[Vector], tuple[float, Vector]]

_TYPES = {
    "float32": float(np.finfo(np.float32).eps),
    "float16": float(np.finfo(np.float16).eps),
    "bfloat16": 2.0**-7,
}
# Numbers rounded more coarsely than this are too coarse to check derivatives, or to run with.
_COARSE = 1e-4
# Noise below this is that of float64, even in long sums.
_FINE = 1e-12
# A gradient that changes by this much more or less than evenly along a short step has noise.
_UNEVEN = 1e-9
# How many times its relative size rounding may come to.
_MARGIN = 4
# Parts of a step at which a disagreement is looked at again.
_PARTS = (1 / 8, 1 / 64)
# A gradient may be wrong by this part of its length: formulas that are only nearly exact are.
_SLACK = 1e-5
# Where to look for noise: the smallest step of these, relative to x, that changes anything at all.
_NOISE_STEPS = (1e-10, 10**-7.5, 1e-5, 10**-2.5)
_COARSE_REMEDY = (
    "Compute in float64 (or float32) and without large constants, or pass check=False if you are "
    "certain of it."
)


def grain(value: object, gradient: object) -> float:
    """Return the relative rounding of what a callable returned.

    That of its types; or of a coarser one that holds all of these numbers without a loss, since
    float64 that was computed in float32 has the accuracy of float32.

    >>> grain(0.1, np.array([0.3, 0.7])) == EPSILON
    True
    >>> f"{grain(np.float32(0.1), [0.3, 0.7]):.1e}, {grain(1 / 3, np.float16([0.3, 0.7])):.1e}"
    '1.2e-07, 9.8e-04'
    >>> f"{grain(float(np.float32(0.1)), np.float32([0.3, 0.7]).astype(float)):.1e}"
    '1.2e-07'
    """
    names = [str(getattr(part, "dtype", "")).rpartition(".")[2] for part in (value, gradient)]
    unit = max(_TYPES.get(name, EPSILON) for name in names)
    numbers = np.append(np.asarray(gradient, dtype=float), np.asarray(value, dtype=float))
    if np.count_nonzero(numbers) < 2 or not np.isfinite(numbers).all():
        return unit  # a single one may be round
    with np.errstate(over="ignore"):
        single, half = numbers.astype(np.float32), numbers.astype(np.float16)
    if (single == numbers).all():
        unit = max(unit, _TYPES["float32"])
        if not (single.view(np.uint32) & 0xFFFF).any():
            unit = max(unit, _TYPES["bfloat16"])
    return max(unit, _TYPES["float16"]) if (half == numbers).all() else unit


def step_size(precision: float) -> float:
    """Return the step of central differences, relative to x, at which their two errors balance."""
    return float(precision ** (1 / 3))


@dataclass(frozen=True)
class Trial:
    """Value and gradient at a point, a step ahead of it and a step behind."""

    x: Vector
    v: Vector
    h: float
    here: tuple[float, Vector]
    ahead: tuple[float, Vector]
    behind: tuple[float, Vector]
    precision: float

    @property
    def measured(self) -> float:
        """What differences of the value say of the mean slope along the way."""
        return (self.ahead[0] - self.behind[0]) / (2 * self.h)

    @property
    def claimed(self) -> float:
        """What the gradient says of it: Simpson's rule, so that the step need not be small."""
        return float((self.behind[1] + 4 * self.here[1] + self.ahead[1]) @ self.v) / 6

    @property
    def size(self) -> float:
        """The length of the gradient."""
        return norm(self.here[1])

    @property
    def tolerance(self) -> float:
        """How far apart the two may be: rounding, and what Simpson's rule leaves out."""
        largest = max(abs(f) for f, _ in (self.here, self.ahead, self.behind))
        rounding = _MARGIN * self.precision * (largest / self.h + self.size)
        return _SLACK * self.size + rounding + 0.01 * self.uneven

    @property
    def gap(self) -> float:
        """By how much the gradient says more than the value."""
        return self.claimed - self.measured

    @property
    def agrees(self) -> bool:
        """Whether the gradient says what the value says."""
        return bool(abs(self.gap) <= self.tolerance)

    @property
    def uneven(self) -> float:
        """By how much the gradient changes more on the one side than on the other."""
        return norm(self.behind[1] - 2 * self.here[1] + self.ahead[1])

    @property
    def bend(self) -> Vector:
        """The Hessian-vector product along the way, by differences."""
        product: Vector = (self.ahead[1] - self.behind[1]) / (2 * self.h)
        return product

    @property
    def bend_error(self) -> float:
        """How far that is off: rounding, and what the length of the step leaves out."""
        left_out = (self.h / (1 + norm(self.x))) ** 2 * norm(self.bend)
        return _MARGIN * self.precision * self.size / self.h + left_out

    @property
    def says_nothing(self) -> bool:
        """Whether a wrong gradient would have passed, too."""
        return self.tolerance > 0.3 * max(abs(self.claimed), abs(self.measured))


def check_gradient(evaluate: Evaluate, points: Matrix, seed: int, precision: float) -> list[Trial]:
    """Return what was tried, with the precision that was found, if the gradient is right.

    Three calls per point settle it, as a rule. Where they do not, it may be the precision that is
    lower than the numbers look: their noise is measured, and steps of other lengths are taken. A
    gradient that is wrong is wrong by the same amount at all of them; noise is not.

    Raises:
        GradientMismatch: the gradient is not that of the value.
        InvalidObjective: both are too coarse to tell.
        NotFinite: one of them is not finite.
    """

    def at(x: Vector) -> tuple[float, Vector]:
        value, gradient = evaluate(x)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise NotFinite(
                f"value_and_grad gives a value or gradient that is not finite at {x[:4]}...",
                remedy="Make it finite everywhere, or pass check=False if it is where you run.",
            )
        return value, gradient

    directions = np.random.default_rng([seed, 1]).standard_normal(points.shape)
    _refuse_coarse(precision)
    trials = [_trial(at, x, u, at(x), precision) for x, u in zip(points, directions, strict=True)]
    slopes = max(trial.size for trial in trials)
    rough = precision == EPSILON and max(t.uneven for t in trials) > _UNEVEN * slopes
    if rough or not all(trial.agrees for trial in trials):
        noise = _noise(at, trials)
        _refuse_coarse(noise)
        precision = max(precision, noise if noise > _FINE else 0.0)
        trials = [_closer(at, trial, precision) for trial in trials]
    if not all(trial.agrees for trial in trials):
        _blame(trials)
    telling = [t for t in trials if t.claimed or t.measured]
    if telling and all(trial.says_nothing for trial in telling):
        worst = max(telling, key=lambda trial: abs(trial.here[0]))
        raise InvalidObjective(
            f"The gradient cannot be checked: beside a value of {worst.here[0]:.3g}, known to "
            f"{worst.precision:.1g} of itself, a slope of {worst.claimed:.3g} is lost in rounding.",
            remedy=_COARSE_REMEDY,
        )
    return trials


def _closer(evaluate: Evaluate, trial: Trial, precision: float) -> Trial:
    """Return a trial of this precision that settles it: it agrees, or a shorter step confirms it.

    Raises:
        InvalidObjective: steps of different lengths say different things.
    """
    if precision > trial.precision:
        trial = _trial(evaluate, trial.x, trial.v, trial.here, precision)
    tried = [trial]
    for part in _PARTS:
        if tried[-1].agrees:
            return tried[-1]
        h, v, x = part * trial.h, trial.v, trial.x
        ends = evaluate(x + h * v), evaluate(x - h * v)
        tried.append(Trial(x, v, h, trial.here, *ends, precision))
        longer, shorter = tried[-2:]
        # With a short enough step everything agrees, so that it takes more than that to be right;
        # and the value does not change at all, so that it takes more than that to be wrong.
        same = abs(longer.gap - shorter.gap) < 0.3 * abs(longer.gap) and shorter.measured != 0
        if same and (not shorter.agrees or abs(longer.gap) > 3 * longer.tolerance):
            return longer
    if tried[-1].agrees:
        return tried[-1]
    if not any(t.measured for t in tried):
        return trial  # the value is constant
    raise InvalidObjective(
        "The gradient cannot be checked: how far it is from differences of the value depends on "
        f"their step ({', '.join(f'{t.gap:.2g} at {t.h:.1g}' for t in tried)}).",
        remedy=_COARSE_REMEDY,
    )


def _trial(
    evaluate: Evaluate, x: Vector, u: Vector, here: tuple[float, Vector], precision: float
) -> Trial:
    size = norm(here[1])
    # Half along the gradient, where its sign and length show, half along everything.
    v = u / norm(u) + (np.copysign(1 / size, here[1] @ u) * here[1] if size > 0 else 0.0)
    v = v / norm(v)
    needed = _MARGIN * precision * abs(here[0]) / (1e-4 * size) if size > 0 else 0.0
    h = min(max(step_size(precision), needed), 0.1) * (1 + norm(x))
    return Trial(x, v, h, here, evaluate(x + h * v), evaluate(x - h * v), precision)


def _noise(evaluate: Evaluate, trials: Sequence[Trial]) -> float:
    """Return the relative noise of values and gradients, from differences that nothing smooth has.

    Steps so short that the numbers do not change say nothing: they are shorter than a float of
    the precision that the callable computes with can be told from x.
    """
    values = max(abs(t.here[0]) for t in trials) or 1.0
    slopes = max(t.size for t in trials) or 1.0
    found = np.zeros(2)  # of values, of gradients
    for step in _NOISE_STEPS:
        rough = np.zeros(2)
        for t in trials:
            h = step * (1 + norm(t.x))
            ahead, behind = evaluate(t.x + h * t.v), evaluate(t.x - h * t.v)
            value = abs(ahead[0] - 2 * t.here[0] + behind[0]) / values
            slope = norm(ahead[1] - 2 * t.here[1] + behind[1]) / slopes
            rough = np.maximum(rough, [value, slope])
        found = np.where(found > 0, found, rough)
        if found.all():
            break
    return float(found.max()) / 2


def _refuse_coarse(precision: float) -> None:
    if precision > _COARSE:
        raise InvalidObjective(
            f"Value and gradient are known to {precision:.1g} of themselves only, too coarse to "
            "check one against the other.",
            remedy=_COARSE_REMEDY + " A loss that is noisy on purpose needs check=False, too.",
        )


def _blame(trials: Sequence[Trial]) -> None:
    """Raise, and say what is wrong where all trials agree on it."""
    worst = max(trials, key=lambda t: abs(t.gap) / t.tolerance)
    raise GradientMismatch(
        f"The gradient disagrees with the value: along a direction it says {worst.claimed:.6g}, "
        f"differences of the value say {worst.measured:.6g}. {_cause(trials)}",
        remedy="Correct the gradient, or pass check=False if the loss is noisy on purpose.",
    )


def _cause(trials: Sequence[Trial]) -> str:
    ratio = _common([(t.claimed, t.measured) for t in trials if not t.says_nothing])
    if ratio is not None and abs(ratio + 1) < 0.01:
        return "Everywhere it is the negative of what it should be: its sign is wrong."
    if ratio is not None and abs(ratio - 1) > 0.02:
        fold = max(abs(ratio), 1 / abs(ratio))
        means = round(fold) > 2 and abs(fold / round(fold) - 1) < 0.01
        hint = f" (a sum over {round(fold)} terms where the other is a mean?)" if means else ""
        return f"Everywhere it is {ratio:.4g} times what it should be: a factor is wrong{hint}."
    l2 = _common([(-t.gap, float(t.x @ t.v)) for t in trials if t.x.any()])
    if l2 is not None and all(t.agrees for t in trials if not t.x.any()):
        holder = "value" if l2 > 0 else "gradient"
        return f"The difference is {abs(l2):.4g} x: only the {holder} has a penalty l2/2 |x|^2."
    return "No factor explains it: a term that is left out, or a wrong coordinate?"


def _common(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return the ratio of several pairs if it is the same for all, to a hundredth."""
    if len(pairs) < 2 or any(below == 0 for _, below in pairs):
        return None
    ratios = np.array([above / below for above, below in pairs])
    middle = float(np.median(ratios))
    same = middle != 0 and bool((np.abs(ratios / middle - 1) < 0.01).all())
    return middle if same else None
