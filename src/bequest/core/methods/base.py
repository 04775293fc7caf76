"""What every method has in common: one state, one invariant, one hand-off.

A node's state is (x, s) with z = grad h(x) + s, and **the s of all nodes sum to zero**: s moves
along edges only, and what one end gains the other loses. At a fixed point all x agree and z = 0, so
that the gradients sum to zero. Hence the hand-off of gradient tracking is that of every method: a
leaver hands s to its heir, and nothing else of its state matters. Nodes store x, z and
g = grad h(x); the surplus is s = z - g.

A method says what a node tells its neighbours (``message``), what it makes of what it hears
(``advance``), and which number, the *pace*, all nodes agree on for an epoch (``first_pace``,
``next_pace``). Rounds, departures, crashes and returns are written once, for all of them.

Paper: prop:invariant ("any off-the-shelf decentralized method applies").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from bequest.core import mixing
from bequest.core.arrays import is_whole
from bequest.core.steps import StepChoice
from bequest.core.unfinished import refuse_unfinished
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices, Vector
    from bequest.core.arrays import Tensor as Array

    # A vector of one node, or a matrix with a row per node.
    Rows: TypeAlias = Array
    # A number of one node, or a column with one per node.
    PerNode: TypeAlias = float | Array


@dataclass(frozen=True, eq=False)
class Conditions:
    """What a pace may be chosen by: curvatures and the graph, and no vector.

    Attributes:
        strength: node -> the least curvature of what it minimises, the inherited included.
        stiffness: node -> the largest.
        floor: node -> the least curvature of its metric: that of a matrix above its Hessian, or
            ``stiffness`` where the metric is a number.
        weights: the averaging weights of the epoch, nodes ascending.
        modulus: the least curvature of the mean of all losses where the run starts; 0 where it was
            not looked for.
        shared_floor: the least curvature of the mean of all matrices there, of directions in which
            a node has anything to do; 0 where it was not looked for.
    """

    strength: Mapping[int, float]
    stiffness: Mapping[int, float]
    floor: Mapping[int, float]
    weights: csr_array
    modulus: float = 0.0
    shared_floor: float = 0.0

    @classmethod
    def of(
        cls,
        nodes: Indices,
        strength: Vector,
        stiffness: Vector,
        floor: Vector,
        weights: csr_array,
        modulus: float,
        shared_floor: float = 0.0,
    ) -> Conditions:
        """Return the conditions of these nodes, from arrays with an entry per node."""
        low, high, floors = (
            dict(zip(nodes.tolist(), numbers.tolist(), strict=True))
            for numbers in (strength, stiffness, floor)
        )
        return cls(low, high, floors, weights, modulus, shared_floor)

    @property
    def of_numbers(self) -> Conditions:
        """The same where every metric is a number."""
        return replace(self, floor=self.stiffness, shared_floor=0.0)

    @property
    def stiffest(self) -> int:
        """The node with the largest curvature, the first of them."""
        return max(sorted(self.stiffness), key=self.stiffness.__getitem__)

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """The smallest eigenvalue of the weights, or a bound below it."""
        return mixing.smallest_eigenvalue(self.weights)

    @cached_property
    def gap(self) -> float:
        """The spectral gap of the weights, roughly where the network is large."""
        return mixing.spectral_gap(self.weights, rough=True)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What the rounds of an epoch go by: of one node, or of all with a row each.

    Attributes:
        pace: the number that all nodes agree on.
        step: how far a node goes against z, where that is a number: x - step z.
        inverse: the same as a matrix, or a matrix per row; None where it is a number.
        coupling: what differences are multiplied with before they are heard.
    """

    pace: float
    step: PerNode
    inverse: Array | None = None
    coupling: float = 1.0

    def spread(self, shape: tuple[int, ...]) -> Local:
        """Return the same for arrays of that shape, where every node has a step of its own.

        Arrays of one shape are multiplied up to three times as fast as others.
        """
        if isinstance(self.step, float):
            return self
        return replace(self, step=np.ascontiguousarray(np.broadcast_to(self.step, shape)))

    def descend(self, z: Rows, out: Rows | None = None) -> Rows:
        """Return how far z makes a node go, z times the step or the matrix."""
        if self.inverse is None:
            return np.multiply(z, self.step, out)
        # It is symmetric, and of small ones this product is up to a fifth faster than matvec.
        return np.vecmat(z, self.inverse, out=out)


class Method(ABC):
    """A decentralized method whose leavers are remembered.

    A method of your own is one class with ``message`` and ``advance``, and with ``given`` or
    ``first_pace``: the pace that it is given, or how it chooses one (``bequest docs own-method``).

    Attributes:
        label: what it is called.
        vectors: how many vectors go over every edge in a round, per direction.
        hears_differences: whether ``heard`` is what a node says minus the average of what it hears,
            (I - W) m times ``local.coupling``, or that average, W m. Differences lose no digits
            when all nodes agree.
        is_exact: whether its fixed point is the minimiser of the sum.
        wants_matrix: whether ``localise`` asks for a bound on the Hessian.
    """

    label: ClassVar[str]
    vectors: ClassVar[int] = 1
    hears_differences: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True
    wants_matrix: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "label" not in vars(cls):
            cls.label = cls.__name__

    def __new__(cls, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - whatever __init__ takes
        """Refuse a class that is not finished."""
        refuse_unfinished(cls, InvalidMethod, page="own-method")
        return super().__new__(cls)

    @property
    def given(self) -> float | None:
        """The pace that the user has given; None to have it chosen by ``first_pace``."""
        return None

    @abstractmethod
    def message(self, x: Rows, z: Rows, local: Local, out: Rows | None = None) -> tuple[Rows, ...]:
        """Return what a node tells its neighbours: ``vectors`` arrays, each shaped like x.

        ``out`` may be used for one of them.
        """

    @abstractmethod
    def advance(
        self,
        x: Rows,
        z: Rows,
        said: tuple[Rows, ...],
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return the next x (in ``out``, if there is one), and z with what s has gained.

        What the s of all nodes gain must sum to zero: it has to be the same multiple of (I - W) of
        something said, at every node. The gradient's change is added to z later. ``heard`` may be
        overwritten; x, z and what was said may not.
        """

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return the pace to begin with."""
        _ = conditions
        raise InvalidMethod(
            f"{self.label} cannot choose its pace.", remedy="Give it one, or define first_pace."
        )

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return the pace from the next round on, or None to keep the present one."""
        _ = current, conditions, since
        return None

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,
        stiffness: PerNode,
        bound: Callable[[], Array | None],
    ) -> Local:
        """Return what rounds go by, from what a node knows of itself.

        Args:
            pace: the number that all nodes agree on.
            own_weight: the weight of the own message in an average.
            stiffness: the largest curvature of what the node minimises.
            bound: returns a matrix above its Hessian, everywhere; None where there is none.
        """
        _ = own_weight, stiffness, bound
        return Local(pace, pace)

    def at(self, local: Local, t: int) -> Local:
        """Return what round t goes by; most methods do not change from round to round."""
        _ = t
        return local

    def own_step(self, pace: float, smoothness: float) -> float:
        """Return about how far a node of that smoothness goes against z: its will may know that."""
        _ = smoothness
        return pace


@dataclass(frozen=True)
class OneStep(Method):
    """A method whose pace is one step for all nodes, lowered if an heir becomes too stiff for it.

    Args:
        step: the step of every node; None to have it chosen.
    """

    step: float | None = None

    def __post_init__(self) -> None:
        check_pace(self.step, "step")

    @property
    def given(self) -> float | None:
        """The step."""
        return self.step

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return a lower step if what a node carries now makes the present one unsafe."""
        safe, heir = self._safe(conditions), conditions.stiffest
        if safe >= current:
            return None
        carries = conditions.stiffness[heir]
        return StepChoice(safe, since, f"node {heir} now carries smoothness {carries:.4g}")

    @abstractmethod
    def _safe(self, conditions: Conditions) -> float:
        """Return the largest step that is used under these conditions."""


def check_method(method: object) -> None:
    """Refuse what is not a method, or only half of one."""
    if isinstance(method, type) or not isinstance(method, Method):
        raise InvalidMethod(
            f"The method is {method!r}.",
            remedy="Pass one of bequest.methods, such as GradientTracking() or NIDS(), or one of "
            "your own that is derived from bequest.methods.Method.",
        )
    check_pace(method.given, "pace")
    if not is_whole(method.vectors, least=1):
        raise InvalidMethod(
            f"{method.label} says that it sends {method.vectors!r} vectors.",
            remedy="Let vectors be how many arrays its messages hold: a whole number >= 1.",
        )


def check_pace(pace: object, name: str) -> None:
    """Refuse what is not a positive number or None."""
    if pace is None:
        return
    if not _is_positive(pace):
        raise InvalidMethod(
            f"The {name} is {pace!r}.", remedy="Use a positive number, or None to have one chosen."
        )


def checked(method: Method, choice: object) -> StepChoice:
    """Return what a method has chosen as its pace, if it can be one.

    Raises:
        InvalidMethod: it is something else.
    """
    if isinstance(choice, StepChoice) and _is_positive(choice.value):
        return choice
    raise InvalidMethod(
        f"{method.label} chooses {choice!r} as its pace.",
        remedy="Return StepChoice(value, since, why) with a positive number.",
    )


def _is_positive(pace: object) -> bool:
    number = isinstance(pace, int | float | np.integer | np.floating)
    try:
        return number and not isinstance(pace, bool) and 0 < float(cast("float", pace)) < math.inf
    except OverflowError:
        return False
