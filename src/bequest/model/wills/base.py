"""What every will has in common: what it may know, and what it can decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from bequest.core import anchors
from bequest.core.arrays import norm
from bequest.core.legacy import Legacy
from bequest.core.unfinished import refuse_unfinished
from bequest.errors import InvalidWill
from bequest.model.ensemble import own_minimiser
from bequest.model.prediction import is_stochastic, predict

if TYPE_CHECKING:
    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.history import EpochPath
    from bequest.model.objectives.base import Objective

Choice: TypeAlias = Literal[
    "classic",
    "none",
    "consensus",
    "local",
    "point",
    "drift",
    "sketch",
    "average",
    "full",
    "recall",
    "replay",
    "trust",
]
Branch: TypeAlias = Literal["drift", "consensus", "local", "none"]

# A gradient that is halfway through its change, to this relative accuracy, halfway along the way is
# that of a quadratic; to the second one, nearly. Predictions suppose the latter.
_EVEN, _NEARLY_EVEN = 1e-9, 0.15
# No prediction is believed that lies this many times farther ahead than the node has ever come.
_FARTHEST = 10.0
# So many steps of its own descent show where a loss leads whose minimiser is too dear.
_STEPS = 5
# And so many accelerated ones where they take no more multiplications than this, a few
# milliseconds.
_MANY_STEPS, _AFFORDABLE = 300, 2e8
# Where there is no strong convexity, what holds a node at its iterate, as a part of the largest
# curvature of its loss.
_HELD = 1e-4


@dataclass(frozen=True, slots=True)
class Setting:
    """What all nodes of a run know.

    ``pilot`` is there if some will asked for it. ``optimum`` is the oracle: known in studies,
    never in the field, and given only to wills that say they need it. ``statistics`` is whether
    statistics of samples may leave a node.
    """

    n: int
    mu: float
    kappa: float
    step: float
    pilot: Pilot | None
    optimum: Vector | None
    statistics: bool = True


@dataclass(frozen=True)
class Estate:
    """What a leaver has when it writes its will; ``remaining`` nodes stay behind.

    Attributes:
        node: the node that leaves.
        round: after which round.
        remaining: how many nodes stay behind.
        objective: its own loss.
        x: its iterate.
        z: its tracker at the end of the round, an estimate of the network's mean gradient.
        start: where it began.
        setting: what all nodes know.
        recent: the pairs it holds of this epoch, for wills that ask for them.
        carried: what the longest earlier epoch let it predict, likewise.
        by_gradients: whether the loss may be asked for gradients only.
        descended: after which round, and where, its own descent was last looked at.
        minimised: the minimiser of its own loss, if it has been looked for before.
    """

    node: int
    round: int
    remaining: int
    objective: Objective
    x: Vector
    z: Vector
    start: Vector
    setting: Setting
    recent: EpochPath | None = None
    carried: Prediction | None = None
    by_gradients: bool = False
    descended: tuple[int, Vector] | None = None
    minimised: Vector | None = None

    @cached_property
    def gradient(self) -> Vector:
        """The own gradient at the iterate."""
        return self.objective.gradient(self.x)

    @cached_property
    def local_track(self) -> Vector:
        """u: where its own descent has led it by now (alg:lgt)."""
        since, u = (0, self.start) if self.descended is None else self.descended
        return anchors.local_track(
            self.objective.gradient,
            u,
            smoothness=self.objective.curvature.b,
            rounds=self.round - since,
        )

    @cached_property
    def own_minimiser(self) -> Vector | None:
        """The minimiser of the own loss, where it is cheap."""
        return own_minimiser(self.objective) if self.minimised is None else self.minimised

    @cached_property
    def held_minimiser(self) -> Vector | None:
        """The same of a loss that may have none, or one that is far away: held at the iterate.

        Without strong convexity the own loss may fall for ever, as on samples that a plane
        separates. Where it is cheap; None if the loss is strongly convex.
        """
        curvature = self.objective.curvature
        if curvature.a > 0 or self.objective.constant_hessian:
            return None
        return own_minimiser(self.objective, at=self.x, pull=_HELD * curvature.b)

    @cached_property
    def own_end(self) -> Vector:
        """Where the own loss alone leads: its minimiser, or some steps of its descent."""
        for end in (self.held_minimiser, self.own_minimiser):
            if end is not None:
                return end
        gradient, curvature = self.objective.gradient, self.objective.curvature
        if not self.has_own_end:
            return anchors.local_track(gradient, self.x, smoothness=curvature.b, rounds=_STEPS)
        # no minimiser is needed, but a way that is long enough to see how the loss bends
        pull = _HELD * curvature.b if curvature.a <= 0 else 0.0
        return anchors.downhill(
            lambda x: gradient(x) + pull * (x - self.x),
            self.x,
            low=max(curvature.a, _HELD * curvature.b),
            high=curvature.b + pull,
            steps=_MANY_STEPS,
        )

    @cached_property
    def has_own_end(self) -> bool:
        """Whether ``own_end`` is the own minimiser, or nearly; otherwise it is a few steps away."""
        if self.held_minimiser is not None or self.own_minimiser is not None:
            return True
        formulas = self.setting.mu >= 0 and np.isfinite(self.objective.hessian_work)
        return bool(formulas) and _MANY_STEPS * self.objective.alone.gradient_work <= _AFFORDABLE

    @cached_property
    def foreseen(self) -> list[Prediction]:
        """What this epoch says about the optimum, believed or not, the least damped first."""
        if self.recent is None:
            return []
        step = self.setting.step
        return predict(self.objective, self.recent, step, by_gradients=self.by_gradients)

    @cached_property
    def predictions(self) -> list[Prediction]:
        """All predictions of the optimum, believed or not, the least doubtful first."""
        if self.recent is None:
            return []
        carried = [] if self.carried is None else [self.carried]
        return sorted(self.foreseen + carried, key=lambda one: one.doubt)

    @cached_property
    def believed(self) -> list[Prediction]:
        """Those of them that are steady, within reach, and where the own loss bends evenly.

        They extrapolate as if all losses were quadratics. Of its own loss a node can tell whether
        it is one on the way there, or nearly; and a way that is much longer than all that the node
        has come tells nothing.
        """
        if self.recent is None:
            return []
        within = anchors.reach(self.recent, self.objective.curvature.a)
        within = min(within, _FARTHEST * norm(self.x - self.start))
        steady = (one for one in self.predictions if one.is_steady(self.x, within))
        return [one for one in steady if self._bends_evenly(one.point, _NEARLY_EVEN)]

    @cached_property
    def is_quadratic(self) -> bool:
        """Whether the own loss is a quadratic, as far as a node can tell.

        A quadratic knows that it is one. Other losses are asked along the ways from the iterate to
        the start and to where the own loss leads: where a loss is flat, as Huber's is far out, the
        path alone would tell nothing.
        """
        if self.objective.constant_hessian:
            return True
        moved = not np.array_equal(self.start, self.x)
        if moved and not self._bends_evenly(self.start, _EVEN):
            return False
        if np.array_equal(self.own_end, self.x):
            return moved
        return self._bends_evenly(self.own_end, _EVEN)

    def _bends_evenly(self, end: Vector, tolerance: float) -> bool:
        """Whether the own gradient changes evenly between the iterate and that point."""
        if self.objective.constant_hessian:
            return True
        change = self.objective.gradient(end) - self.gradient
        halfway = self.objective.gradient((self.x + end) / 2) - self.gradient
        return norm(change) > 0 and norm(halfway - change / 2) <= tolerance * norm(change)

    @cached_property
    def is_noisy(self) -> bool:
        """Whether the path wanders about and the gradients are stochastic."""
        path = self.recent
        return path is not None and not path.drifts and is_stochastic(self.objective, self.x)

    def anchored_at(
        self, anchor: Vector, eta: float | None = None, factor: Matrix | None = None
    ) -> Legacy:
        """Return the legacy at that anchor; with the midpoint curvature if none is given.

        Paper: eq:legacy, lem:center.
        """
        return Legacy.anchored(
            self.node,
            anchor=anchor,
            value=self.objective.value(anchor),
            gradient=self.objective.gradient(anchor),
            eta=self.objective.curvature.midpoint if eta is None else eta,
            factor=factor,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bequest:
    """A will's decision about the leaver's OWN loss, and how what it inherited is passed on.

    Attributes:
        choice: which branch was taken.
        why: in words.
        legacy: the memory of the own loss, or None.
        anchor: where that memory is exact.
        bounds: what each branch can cost at most, in units of the final error, where that was
            compared.
        predicted: how far each branch was expected to move the optimum, where that was compared.
        branches: the legacies that were compared; None for no legacy.
        restart: whether nothing is handed over, not even what was inherited, and every survivor
            restarts its tracker.
        rank: what is handed over, the inherited included, has at most this rank; None for as it is.
        along: the directions in which it keeps its curvature if it has to be compressed.
        floor: whether nothing of it may be flat then, because a slope could run away there.
    """

    choice: Choice
    why: str
    legacy: Legacy | None = None
    anchor: Vector | None = None
    bounds: Mapping[Choice, float] = field(default_factory=dict)
    predicted: Mapping[Choice, float] = field(default_factory=dict)
    branches: Mapping[Choice, Legacy | None] = field(default_factory=dict)
    restart: bool = False
    rank: int | None = None
    along: Matrix | None = None
    floor: bool = False

    def compose(self, inherited: Legacy, x: Vector) -> Legacy:
        """Return all that is handed over: the own legacy and the inherited one, as one quadratic.

        Lossless, unless the will promised a message of constant size: then the sum is compressed
        to the rank it promised, with its gradient at the anchor (or the iterate x) kept.
        """
        whole = inherited if self.legacy is None else self.legacy + inherited
        if self.rank is None or whole.vectors <= 1 + self.rank:
            return whole
        at = x if self.anchor is None else self.anchor
        return whole.recompress(self.rank, at=at, along=self.along, floor=self.floor)


class Will(ABC):
    """The policy that decides what a leaver bequeaths.

    ``title`` is what it is called in tables and records. It is made from the class's ``label``; a
    class that gives none is called by its own name, and never by that of the will it is derived
    from.
    """

    label: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A label that is only declared is a field, which every will of the class has for itself.
        if "label" not in vars(cls) and "label" not in vars(cls).get("__annotations__", {}):
            cls.label = cls.__name__

    def __new__(cls, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - whatever __init__ takes
        """Refuse a class that is not finished."""
        refuse_unfinished(cls, InvalidWill, page="own-will")
        return super().__new__(cls)

    @property
    def title(self) -> str:
        """Its label, and what tells it from others of its kind."""
        return self.label

    @property
    def needs_pilot(self) -> bool:
        """Whether it reads ``Setting.pilot``."""
        return False

    def needs_pilot_in(self, regime: str) -> bool:  # noqa: ARG002 - most wills do not care
        """Whether it reads ``Setting.pilot`` in that regime, ``"SC"`` or ``"C"``."""
        return self.needs_pilot

    @property
    def needs_oracle(self) -> bool:
        """Whether it reads ``Setting.optimum``."""
        return False

    @property
    def needs_spread(self) -> bool:
        """Whether it reads ``Pilot.spread``, which costs a minimisation per node."""
        return False

    @property
    def needs_history(self) -> bool:
        """Whether it reads ``Estate.recent`` and ``Estate.carried``."""
        return False

    @property
    def by_gradients(self) -> bool:
        """Whether it may ask the loss for gradients only."""
        return False

    @property
    def tells_statistics(self) -> bool:
        """Whether it may hand over statistics of the node's samples."""
        return False

    @property
    def forgets(self) -> bool:
        """Whether its node wants to be forgotten, also if it crashes."""
        return False

    @property
    def insists(self) -> bool:
        """Whether its quadratics are handed over in any case, also where a loss is not convex.

        If not, they are left out as long as they would hold the survivors back (``guard``), and
        made as stiff as the loss was on the way (``stiffness``).
        """
        return False

    @abstractmethod
    def decide(self, estate: Estate) -> Bequest:
        """Return what happens to the leaver's own loss."""


def check_wills(will: object, *, n: int) -> None:
    """Refuse what is not a will, and wills of nodes that do not exist (a slip, unnoticed)."""
    if not isinstance(will, Mapping):
        will = {None: will}
    for node, one in will.items():
        if not isinstance(one, Will):
            raise InvalidWill(
                f"{one!r} is not a will.",
                remedy="Pass one of bequest.wills, e.g. wills.Adaptive().",
            )
        title = _title_of(one)
        if not isinstance(title, str) or not title.strip():
            raise InvalidWill(
                f"The will {type(one).__name__} is called {title!r}.",
                remedy="Give it a label that is a text, or none at all to call it by its class.",
            )
        if node is not None and node not in range(n):
            raise InvalidWill(
                f"There is a will for node {node!r}, which does not exist.",
                remedy=f"Nodes are numbered 0..{n - 1}; the default has the key None.",
            )


def _title_of(will: Will) -> object:
    try:
        return will.title
    except Exception as error:  # noqa: BLE001 - a user's own title may raise anything
        return error


def will_of(will: Will | Mapping[int | None, Will], node: int) -> Will:
    """Return the will of one node: its own if it has one, the default (key None) otherwise."""
    if isinstance(will, Will):
        return will
    chosen = will.get(node, will.get(None))
    if chosen is None:
        raise InvalidWill(
            f"Node {node} leaves, but has no will and there is no default.",
            remedy="Add it to the mapping, or a default under the key None.",
        )
    return chosen
