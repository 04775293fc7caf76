"""A slow, obvious, node-by-node reference of Legacy-GT (`alg:lgt`), and of every other method.

Every quantity is kept per node in a plain dictionary and every sum is a plain loop, so that each
line can be read beside the paper. It shares no code with the package: the fast engine is checked
against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Edge = tuple[int, int]
Will = Mapping[str, Any]

FLOOR = 2.220446049250313e-16


# --- what goes in and what comes out ---------------------------------------------------------


class Curvature(Protocol):
    """The curvature range [a, b] of one objective (`as:fun`)."""

    @property
    def a(self) -> float: ...

    @property
    def b(self) -> float: ...


class Objective(Protocol):
    """One node's own function f_i."""

    @property
    def curvature(self) -> Curvature: ...

    def value(self, x: Vector, /) -> float: ...

    def gradient(self, x: Vector, /) -> Vector: ...

    def bound(self) -> Vector: ...


@dataclass(frozen=True)
class Quad:
    """The quadratic 1/2 x.Hx + p.x + c, and the original nodes remembered in it.

    Those who were compressed together with others are `blended`.
    """

    H: Vector
    p: Vector
    c: float
    members: frozenset[int]
    blended: frozenset[int] = frozenset()


@dataclass
class Pilot:
    """What a pilot run certifies: the error after t rounds, heterogeneity, spread of minimisers."""

    radius: float
    theta: float
    zeta: float
    spread: float = math.nan


class Departure(TypedDict):
    """The record of one departure or crash."""

    node: int
    round: int
    heir: int | None
    choice: str
    bounds: dict[str, float]
    edges_added: list[Edge]
    lost: list[int]
    checkpoint: int | None
    adopter: int | None
    hub: int


class Change(TypedDict):
    """The record of one return, join or forget."""

    kind: str
    node: int
    round: int
    holder: int | None
    sponsor: int | None
    neighbours: list[int]
    exact: bool


@dataclass(frozen=True)
class Event:
    """Something that happens at the end of a round; `kind` is one of KINDS."""

    kind: str
    node: int
    round: int
    neighbours: Sequence[int] | None = None


# In the order in which they happen at the end of a round.
KINDS = ("crash", "departure", "forget", "return", "join")


@dataclass
class ReferenceRun:
    """The survivors' final state and the history of the run.

    Rows of X and Z follow `survivors` (ascending). `inherited` holds only the survivors that
    inherited something; edges are (smaller id, larger id).
    """

    survivors: list[int]
    X: Vector
    Z: Vector
    error: Vector
    gap: Vector
    departures: list[Departure]
    inherited: dict[int, Quad]
    lost: set[int]
    edges: set[Edge]
    changes: list[Change]


@dataclass
class Setting:
    """What never changes during a run, but for the optimum, which moves, and the pace.

    The pace is the one number that all nodes agree on: a step, or the coupling c.
    """

    objectives: Sequence[Objective]
    pace: float
    optimum: Vector
    pilot: Pilot | None
    method: str = "gradient tracking"
    metric: str = "scalar"


@dataclass
class State:
    """What changes: the graph and, for each node alive, x, z, and h - f.

    The local track u needs no other node: it goes on for every node, there or not.
    """

    neighbours: dict[int, set[int]]
    x: dict[int, Vector]
    z: dict[int, Vector]
    u: dict[int, Vector]
    inherited: dict[int, Quad]
    origin: dict[int, Vector]  # where each began
    heirs: set[int] = field(default_factory=set)  # who inherited something in this round


@dataclass
class Legacy:
    """A leaver's own legacy: its anchor y and its quadratic (members {i})."""

    anchor: Vector
    quad: Quad


# --- quadratics -------------------------------------------------------------------------------


def quad_gradient(quad: Quad, x: Vector) -> Vector:
    """The gradient of a quadratic at x."""
    return quad.H @ x + quad.p


def quad_sum(first: Quad | None, second: Quad | None) -> Quad | None:
    """Add two quadratics; None is "nothing". Exact, hence lossless chains (`prop:compose`)."""
    if first is None:
        return second
    if second is None:
        return first
    return Quad(
        H=first.H + second.H,
        p=first.p + second.p,
        c=first.c + second.c,
        members=first.members | second.members,
        blended=first.blended | second.blended,
    )


def quad_around(anchor: Vector, value: float, slope: Vector, eta: float, node: int) -> Quad:
    """Write value + slope.(x - y) + eta/2 |x - y|^2 in canonical form (`eq:legacy`)."""
    p = slope - eta * anchor
    c = value - float(slope @ anchor) + 0.5 * eta * float(anchor @ anchor)
    return Quad(H=eta * np.eye(anchor.size), p=p, c=c, members=frozenset({node}))


# --- the graph --------------------------------------------------------------------------------


def build_graph(n: int, edges: Iterable[Edge]) -> dict[int, set[int]]:
    """Neighbour sets of nodes 0..n-1; the graph must be connected and without self-loops."""
    neighbours: dict[int, set[int]] = {node: set() for node in range(n)}
    for i, j in edges:
        if i == j:
            raise ValueError(f"self-loop at node {i}")
        neighbours[i].add(j)
        neighbours[j].add(i)
    if len(component_of(neighbours, 0)) != n:
        raise ValueError("the graph is not connected")
    return neighbours


def component_of(neighbours: dict[int, set[int]], node: int) -> set[int]:
    """All nodes that can be reached from `node`."""
    reached = {node}
    waiting = [node]
    while waiting:
        current = waiting.pop()
        for other in neighbours[current]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def ordered(i: int, j: int) -> Edge:
    """An edge with its smaller end first."""
    return (min(i, j), max(i, j))


def edge_set(neighbours: dict[int, set[int]]) -> set[Edge]:
    """All edges of the graph."""
    found: set[Edge] = set()
    for node in neighbours:
        for other in neighbours[node]:
            found.add(ordered(node, other))
    return found


def metropolis(neighbours: dict[int, set[int]]) -> dict[int, dict[int, float]]:
    """Weights w[j][l] = 1 / (1 + max(deg j, deg l)) on edges; w[j][j] is what is left of 1."""
    weights: dict[int, dict[int, float]] = {}
    for j in sorted(neighbours):
        row: dict[int, float] = {}
        rest = 1.0
        for other in sorted(neighbours[j]):
            larger = max(len(neighbours[j]), len(neighbours[other]))
            row[other] = 1.0 / (1.0 + larger)
            rest -= row[other]
        row[j] = rest
        weights[j] = row
    return weights


def choose_heir(state: State, node: int, leaving_now: set[int]) -> int:
    """The neighbour with the fewest inherited nodes; lowest id on ties.

    Neighbours that stay beyond this round come first; only when there is none may the heir be a
    neighbour that is about to leave too.
    """
    staying = {j for j in state.neighbours[node] if j not in leaving_now}
    candidates = staying or state.neighbours[node]
    best = -1
    fewest = -1
    for j in sorted(candidates):
        held = len(state.inherited[j].members) if j in state.inherited else 0
        if best < 0 or held < fewest:
            best = j
            fewest = held
    return best


def remove_and_heal(neighbours: dict[int, set[int]], node: int, hub: int) -> list[Edge]:
    """Take `node` out; if that cuts the graph, bridge from `hub`. Returns the new edges.

    The hub is linked to the lowest-id former neighbour of `node` in every component that does
    not contain the hub.
    """
    former = sorted(neighbours[node])
    for j in former:
        neighbours[j].remove(node)
    del neighbours[node]
    added: list[Edge] = []
    for j in former:
        # Ascending order: the first former neighbour met in a cut-off component is its lowest,
        # and once it is linked its whole component is reached from the hub.
        if j not in component_of(neighbours, hub):
            neighbours[hub].add(j)
            neighbours[j].add(hub)
            added.append(ordered(hub, j))
    return added


# --- the round --------------------------------------------------------------------------------


def working_gradient(setting: Setting, state: State, node: int, x: Vector) -> Vector:
    """The gradient of h_i = f_i + what i inherited."""
    gradient = setting.objectives[node].gradient(x)
    if node in state.inherited:
        gradient = gradient + quad_gradient(state.inherited[node], x)
    return np.array(gradient, dtype=np.float64)


def play_round(setting: Setting, state: State) -> None:
    """One round of the method for every node alive, then one local-track step.

    The state of a node is (x, s), z = grad h(x) + s, and all s sum to zero.
    """
    weights = metropolis(state.neighbours)
    move = ROUNDS[setting.method]
    x, s, z = {}, {}, {}
    for j in sorted(state.neighbours):
        x[j], z[j] = state.x[j], state.z[j]
        s[j] = z[j] - working_gradient(setting, state, j, x[j])
    metrics = {j: metric_of(setting, state, j, weights[j][j]) for j in sorted(state.neighbours)}
    new_x, new_s = move(setting.pace, weights, metrics, x, s, z)
    state.x = new_x
    state.z = {j: working_gradient(setting, state, j, new_x[j]) + new_s[j] for j in new_x}
    state.u = {j: local_step(setting.objectives[j], state.u[j]) for j in state.u}


Rows = dict[int, Vector]
Weights = dict[int, dict[int, float]]
Round = Callable[[float, Weights, Rows, Rows, Rows, Rows], tuple[Rows, Rows]]


def average(weights: Weights, what: Rows, j: int) -> Vector:
    """W times what nodes say, at node j."""
    total = np.zeros_like(what[j])
    for other, weight in weights[j].items():
        total = total + weight * what[other]
    return total


def apart(weights: Weights, what: Rows, j: int) -> Vector:
    """I - W times what nodes say, at node j: what one end of an edge gains the other loses."""
    total = np.zeros_like(what[j])
    for other, weight in weights[j].items():
        total = total + weight * (what[j] - what[other])
    return total


def gradient_tracking(
    a: float, w: Weights, _: Rows, x: Rows, s: Rows, z: Rows
) -> tuple[Rows, Rows]:
    """x+ = W(x - a z); s+ = s - (I - W) z (`alg:lgt`)."""
    phi = {j: x[j] - a * z[j] for j in x}
    return {j: average(w, phi, j) for j in x}, {j: s[j] - apart(w, z, j) for j in x}


def diging(a: float, w: Weights, _: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """x+ = W x - a z; s+ = s - (I - W) z."""
    return (
        {j: average(w, x, j) - a * z[j] for j in x},
        {j: s[j] - apart(w, z, j) for j in x},
    )


def extra(a: float, w: Weights, _: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """x+ = W x - a z; s+ = s + (I - W) x / (2a)."""
    return (
        {j: average(w, x, j) - a * z[j] for j in x},
        {j: s[j] + apart(w, x, j) / (2 * a) for j in x},
    )


def exact_diffusion(a: float, w: Weights, _: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """phi = x - a z; x+ = (I + 2W) phi / 3; s+ = s + (phi - x+) / a."""
    phi = {j: x[j] - a * z[j] for j in x}
    new_x = {j: (phi[j] + 2 * average(w, phi, j)) / 3 for j in x}
    return new_x, {j: s[j] + (phi[j] - new_x[j]) / a for j in x}


def nids(c: float, w: Weights, P: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """phi = x - z/P; delta = c (I - W) phi; s+ = s + delta; x+ = phi - delta/P."""
    phi = {j: x[j] - np.linalg.solve(P[j], z[j]) for j in x}
    delta = {j: c * apart(w, phi, j) for j in x}
    return (
        {j: phi[j] - np.linalg.solve(P[j], delta[j]) for j in x},
        {j: s[j] + delta[j] for j in x},
    )


def admm(c: float, w: Weights, P: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """delta = c (I - W) x; s+ = s + delta; x+ = x - (z + 2 delta)/P.

    The dual of the textbook, which grows by c (I - W) x+, is s + delta.
    """
    delta = {j: c * apart(w, x, j) for j in x}
    return (
        {j: x[j] - np.linalg.solve(P[j], z[j] + 2 * delta[j]) for j in x},
        {j: s[j] + delta[j] for j in x},
    )


def dgd(a: float, w: Weights, _: Rows, x: Rows, s: Rows, z: Rows) -> tuple[Rows, Rows]:
    """x+ = W x - a z; s stays as it is."""
    return {j: average(w, x, j) - a * z[j] for j in x}, dict(s)


ROUNDS: dict[str, Round] = {
    "gradient tracking": gradient_tracking,
    "DIGing": diging,
    "EXTRA": extra,
    "exact diffusion": exact_diffusion,
    "NIDS": nids,
    "ADMM": admm,
    "DGD": dgd,
}


def carried_bound(setting: Setting, state: State, node: int) -> Vector:
    """M: above the Hessian of what a node minimises, a multiple of I or a matrix."""
    held = state.inherited.get(node)
    own = setting.objectives[node]
    dim = state.x[node].size
    if setting.metric == "hessian":
        return np.array(own.bound()) + (np.zeros((dim, dim)) if held is None else held.H)
    top = 0.0 if held is None else float(np.linalg.eigvalsh(held.H)[-1])
    return max(own.curvature.b + top, 0.0) * np.eye(dim)


def metric_of(setting: Setting, state: State, node: int, own_weight: float) -> Vector:
    """P of a node: max(M/1.9, 1.58c(1 - w_ii)), or the sum of both for ADMM; 1/step for others.

    Where M is a matrix, M/1.4 instead of M/1.9.
    """
    dim = state.x[node].size
    if setting.method not in ("NIDS", "ADMM"):
        return np.eye(dim) / setting.pace
    M = carried_bound(setting, state, node)
    least = M / (1.4 if setting.metric == "hessian" else 1.9)
    spread = 1.58 * setting.pace * (1 - own_weight)
    if setting.method == "ADMM":
        return least + spread * np.eye(dim)
    values, basis = np.linalg.eigh(least)
    return np.array(basis @ np.diag(np.maximum(values, spread)) @ basis.T)


def check_stability(setting: Setting, state: State) -> None:
    """A chosen pace keeps M < 2P and 3/4 c (I - W) <= P (NIDS), or their sum (ADMM, EXTRA)."""
    if setting.method not in ("NIDS", "ADMM", "exact diffusion", "EXTRA"):
        return
    nodes = sorted(state.neighbours)
    dim = setting.optimum.size
    weights = metropolis(state.neighbours)
    W = np.array([[weights[j].get(k, 0.0) for k in nodes] for j in nodes])
    coupled = setting.method in ("NIDS", "ADMM")
    c = setting.pace if coupled else {"EXTRA": 1 / 2}.get(setting.method, 2 / 3) / setting.pace
    laplacian = c * np.kron(np.eye(len(nodes)) - W, np.eye(dim))
    P, M = np.zeros_like(laplacian), np.zeros_like(laplacian)
    for row, j in enumerate(nodes):
        block = slice(row * dim, (row + 1) * dim)
        P[block, block] = metric_of(setting, state, j, weights[j][j])
        M[block, block] = carried_bound(setting, state, j)
    size = float(np.abs(P).max())
    if setting.method in ("NIDS", "exact diffusion"):
        demands = [2 * P - M, P - 3 / 4 * laplacian]
    else:
        demands = [2 * P - M - 3 / 2 * laplacian]
    for demand in demands:
        if float(np.linalg.eigvalsh(demand)[0]) < -1e-9 * size:
            raise ValueError(f"the pace {setting.pace} is not stable for {setting.method}")


def own_step(setting: Setting, node: int) -> float:
    """About how far a node goes against z: what its will may know."""
    if setting.method not in ("NIDS", "ADMM"):
        return setting.pace
    b = setting.objectives[node].curvature.b
    return 1 / b if b else 1.0


def local_step(objective: Objective, u: Vector) -> Vector:
    """One gradient step on f_i alone, of length 1/b_i; no step when b_i is zero."""
    b = objective.curvature.b
    if b == 0:
        return u.copy()
    return u - objective.gradient(u) / b


# --- the choice of a legacy -------------------------------------------------------------------


def norm(x: Vector) -> float:
    """The Euclidean norm."""
    return math.sqrt(float(x @ x))


def need_pilot(setting: Setting) -> Pilot:
    """The pilot, or an error when a will needs one and there is none."""
    if setting.pilot is None:
        raise ValueError("this will needs a pilot")
    return setting.pilot


def certified_error(pilot: Pilot, t: int) -> float:
    """eps(t) = radius * (1 - theta)^(t/2), with the decay floored at machine precision."""
    decay: float = (1.0 - pilot.theta) ** (t / 2)
    return pilot.radius * max(decay, FLOOR)


def gradient_legacy(setting: Setting, node: int, anchor: Vector) -> Legacy:
    """f_i to first order at the anchor, with curvature (a_i + b_i)/2 (`eq:legacy`)."""
    objective = setting.objectives[node]
    eta = (objective.curvature.a + objective.curvature.b) / 2
    value = objective.value(anchor)
    slope = objective.gradient(anchor)
    return Legacy(anchor, quad_around(anchor, value, slope, eta, node))


def point_legacy(setting: Setting, node: int, x: Vector, t: int, cap: float | None) -> Legacy:
    """The pure penalty eta/2 |x - x_i|^2 with the weight of `eq:etat`, capped at cap/step."""
    slope = norm(setting.objectives[node].gradient(x))
    eta = slope / certified_error(need_pilot(setting), t)
    if cap is not None:
        eta = min(eta, cap / own_step(setting, node))
    return Legacy(x, quad_around(x, 0.0, np.zeros_like(x), eta, node))


def oracle_bounds(setting: Setting, state: State, node: int, remaining: int) -> dict[str, float]:
    """The three bounds of `eq:anchor` in the units of `cor:selective`, with true distances."""
    objective = setting.objectives[node]
    n = len(setting.objectives)
    mu = min(f.curvature.a for f in setting.objectives)
    omega = (objective.curvature.b - objective.curvature.a) / 2
    best = setting.optimum
    return {
        "consensus": 2 * omega * norm(state.x[node] - best) / (n * mu),
        "local": 2 * omega * norm(state.u[node] - best) / (n * mu),
        "none": norm(objective.gradient(best)) / (remaining * mu),
    }


def certified_bounds(
    setting: Setting, state: State, node: int, t: int, drop: str, remaining: int
) -> dict[str, float]:
    """The three bounds of `eq:anchor` in the units of `cor:selective`, from the pilot."""
    pilot = need_pilot(setting)
    objective = setting.objectives[node]
    n = len(setting.objectives)
    mu = min(f.curvature.a for f in setting.objectives)
    a = objective.curvature.a
    b = objective.curvature.b
    omega = (b - a) / 2
    eps = certified_error(pilot, t)
    local = pilot.zeta / a + norm(objective.gradient(state.u[node])) / a
    if drop == "heterogeneity":
        none = (norm(objective.gradient(state.x[node])) + b * eps) / (remaining * mu)
    elif drop == "sensitivity":
        largest = max(f.curvature.b for f in setting.objectives)
        none = sensitivity(largest / mu, pilot.spread, remaining)
    else:
        raise ValueError(f"unknown drop bound {drop!r}")
    return {
        "consensus": 2 * omega * eps / (n * mu),
        "local": 2 * omega * local / (n * mu),
        "none": none,
    }


def sensitivity(kappa: float, spread: float, m: int) -> float:
    """How far dropping one function moves the minimiser when m others remain (`rem:hr`)."""
    if math.isnan(spread):
        raise ValueError("the sensitivity bound needs the pilot's spread")
    return min(
        2 * math.sqrt(kappa) * spread + 2 * spread / m,
        kappa * math.sqrt(m + 1) * spread / m,
        kappa * (2 + math.sqrt(kappa)) * spread / m,
    )


def adaptive_choice(
    setting: Setting, state: State, node: int, t: int, will: Will, remaining: int
) -> tuple[str, dict[str, float]]:
    """Rule `eq:anchor`: the smallest bound wins; ties go to consensus, then local, then none.

    Without strong convexity (mu = 0) the bounds do not exist and the answer is consensus.
    """
    if min(f.curvature.a for f in setting.objectives) == 0:
        return "consensus", {}
    if will["rule"] == "oracle":
        bounds = oracle_bounds(setting, state, node, remaining)
    elif will["rule"] == "certified":
        bounds = certified_bounds(setting, state, node, t, will["drop"], remaining)
    else:
        raise ValueError(f"unknown rule {will['rule']!r}")
    choice = "consensus"
    if bounds["local"] < bounds[choice]:
        choice = "local"
    if bounds["none"] < bounds[choice]:
        choice = "none"
    return choice, bounds


def decide(
    setting: Setting, state: State, node: int, t: int, will: Will, remaining: int
) -> tuple[str, dict[str, float]]:
    """What the will says when `remaining` others stay: the choice and the bounds behind it."""
    kind = will["kind"]
    if kind == "given":
        return will["choice"], {}
    if kind == "unasked":  # no node has seen what it decided
        return "none", {}
    if kind == "adaptive":
        return adaptive_choice(setting, state, node, t, will, remaining)
    fixed = {
        "classic": "classic",
        "forgetful": "none",
        "consensus": "consensus",
        "local-track": "local",
        "point-only": "point",
    }
    if kind not in fixed:
        raise ValueError(f"unknown will {kind!r}")
    return fixed[kind], {}


def own_legacy(
    setting: Setting, state: State, node: int, t: int, will: Will, choice: str
) -> Legacy | None:
    """The leaver's own legacy under the choice made, or None.

    A "given" will was decided elsewhere; what it says is taken as it is.
    """
    if will["kind"] == "given":
        quad: Quad = will["quad"]
        return Legacy(will["anchor"], quad)
    if choice == "consensus":
        return gradient_legacy(setting, node, state.x[node])
    if choice == "local":
        return gradient_legacy(setting, node, state.u[node])
    if choice == "point":
        return point_legacy(setting, node, state.x[node], t, will["cap"])
    return None


# --- the hand-off -----------------------------------------------------------------------------


def inherit(state: State, heir: int, bequest: Quad | None) -> None:
    """Add a bequest (or nothing) to what the heir has inherited."""
    total = quad_sum(state.inherited.get(heir), bequest)
    if total is not None:
        state.inherited[heir] = total
    if bequest is not None:
        state.heirs.add(heir)


def hand_off_exact(
    setting: Setting,
    state: State,
    node: int,
    heir: int,
    legacy: Legacy | None,
    blur: Quad | None = None,
) -> None:
    """Bequest plus surplus; keeps sum z = sum grad h for every anchor (`prop:invariant`).

    `blur` is what compressing the message changed.
    """
    surplus = state.z[node] - working_gradient(setting, state, node, state.x[node])
    own = None if legacy is None else legacy.quad
    bequest = quad_sum(quad_sum(own, state.inherited.get(node)), blur)
    if bequest is not None and blur is not None:
        bequest = replace(bequest, blended=bequest.members)
    state.z[heir] = state.z[heir] + surplus
    if bequest is not None:
        state.z[heir] = state.z[heir] + quad_gradient(bequest, state.x[heir])
    inherit(state, heir, bequest)


def hand_off_printed(state: State, node: int, heir: int, legacy: Legacy) -> None:
    """The correction as printed in `alg:lgt`, for the ablation; exact only at y = x_i."""
    led = state.inherited.get(node)
    H = legacy.quad.H if led is None else legacy.quad.H + led.H
    shift = H @ (state.x[heir] - legacy.anchor)
    state.z[heir] = state.z[heir] + state.z[node] + shift
    inherit(state, heir, quad_sum(legacy.quad, led))


def forget_node(state: State, node: int) -> None:
    """Delete everything the leaver held."""
    del state.x[node]
    del state.z[node]
    state.inherited.pop(node, None)


def restart_trackers(setting: Setting, state: State) -> None:
    """Every node alive sets z_j = grad h_j(x_j)."""
    for j in sorted(state.neighbours):
        state.z[j] = working_gradient(setting, state, j, state.x[j])


def leave(
    setting: Setting, state: State, node: int, t: int, will: Will, leaving_now: set[int]
) -> Departure:
    """One departure from beginning to end: decide, hand over, heal the graph, forget the node."""
    if len(state.neighbours) == 1:
        raise ValueError("the last remaining node cannot leave")
    choice, bounds = decide(setting, state, node, t, will, len(state.neighbours) - 1)
    heir = choose_heir(state, node, leaving_now)
    lost: set[int] = set()
    if choice in ("none", "classic"):
        lost.add(node)
    if choice == "classic":
        if node in state.inherited:
            lost |= state.inherited[node].members
    else:
        legacy = own_legacy(setting, state, node, t, will, choice)
        if will.get("handoff") == "printed":
            hand_off_printed(state, node, heir, legacy)
        else:
            hand_off_exact(setting, state, node, heir, legacy, will.get("blur"))
    edges_added = remove_and_heal(state.neighbours, node, heir)
    forget_node(state, node)
    if choice == "classic":
        restart_trackers(setting, state)
    return {
        "node": node,
        "round": t,
        "heir": None if choice == "classic" else heir,
        "choice": choice,
        "bounds": bounds,
        "edges_added": edges_added,
        "lost": sorted(lost),
        "checkpoint": None,
        "adopter": None,
        "hub": heir,
    }


# --- crashes ----------------------------------------------------------------------------------


@dataclass
class Checkpoint:
    """What a node's buddies keep of it, besides what it inherited: that is always up to date."""

    round: int
    choice: str
    bounds: dict[str, float]
    legacy: Legacy | None


def make_checkpoint(
    setting: Setting, state: State, node: int, t: int, will: Will | None, remaining: int
) -> Checkpoint:
    """What the node would bequeath of its own loss if it had to, with so many others left."""
    if will is None:
        return Checkpoint(t, "none", {}, None)
    choice, bounds = decide(setting, state, node, t, will, max(remaining, 1))
    legacy = None
    if choice not in ("none", "classic"):
        legacy = own_legacy(setting, state, node, t, will, choice)
    return Checkpoint(t, choice, bounds, legacy)


def buddies_of(
    neighbours: dict[int, set[int]],
    node: int,
    count: int,
    where: Mapping[int, tuple[str, ...]] | None = None,
) -> list[int]:
    """Who keeps a node's checkpoints: neighbours first, then strangers; the next ids upward.

    `where` says on which host, on which machine (and so on) each is. Of all who are left the next
    buddy is on the host with the fewest buddies, of these on the machine with the fewest; the
    node's own host and its own machine come after all others.
    """
    upward = sorted(j for j in neighbours if j > node) + sorted(j for j in neighbours if j < node)
    near = [j for j in upward if j in neighbours[node]]
    far = [j for j in upward if j not in neighbours[node]]
    found: list[int] = []
    for _ in range(count):
        left = [j for j in near + far if j not in found]
        for level in range(len(where[node]) if where else 0):
            there = {j: where[j][level] for j in left + found}
            left = [j for j in left if there[j] != where[node][level]] or left
            together = {j: sum(there[b] == there[j] for b in found) for j in left}
            left = [j for j in left if together[j] == min(together.values())]
        found += left[:1]
    return found


def crash(
    state: State,
    node: int,
    t: int,
    crashed: set[int],
    buddies: list[int],
    checkpoint: Checkpoint | None,
    recalled: Quad | None,
) -> Departure:
    """One node dies; the first of its buddies that lives adopts what it kept of it.

    Where there is no checkpoint, `recalled` is what the others know of it, if they do.
    """
    alive = [j for j in buddies if j not in crashed]
    led = state.inherited.get(node)
    lost: set[int] = set()
    choice = "none"
    bounds: dict[str, float] = {}
    adopter = None
    if alive and checkpoint is not None:
        adopter = alive[0]
        choice, bounds = checkpoint.choice, checkpoint.bounds
        if checkpoint.legacy is None:
            lost = {node}
            inherit(state, adopter, led)
        else:
            inherit(state, adopter, quad_sum(checkpoint.legacy.quad, led))
        hub = adopter
    else:
        near = sorted(j for j in state.neighbours[node] if j not in crashed)
        far = sorted(j for j in state.neighbours if j not in crashed)
        hub = (near + far)[0]
        if recalled is not None and led is None:
            choice = "recall"
            inherit(state, hub, recalled)
        else:
            lost = {node} if led is None else {node, *led.members}
    edges_added = remove_and_heal(state.neighbours, node, hub)
    forget_node(state, node)
    return {
        "node": node,
        "round": t,
        "heir": hub if choice == "recall" else None if led is None and node in lost else adopter,
        "choice": choice,
        "bounds": bounds,
        "edges_added": edges_added,
        "lost": sorted(lost),
        "checkpoint": None if adopter is None or checkpoint is None else checkpoint.round,
        "adopter": adopter,
        "hub": hub,
    }


def recall(setting: Setting, state: State, node: int) -> Quad | None:
    """The memory of the one node that is lost, or None if the others cannot be trusted with it.

    It is the slope S'x with S the sum of their s, which is minus the s of the lost. The others must
    be strongly convex in sum, and close to the optimum: trackers, which are zero there, at most 0.2
    of the gradients, all lengths added up, and in the mean at most 0.4 of |S|; and the least
    curvature must not leave it open where that is, by more than three times the way they have come.
    """
    others = [j for j in sorted(state.neighbours) if j != node]
    S = np.zeros_like(state.x[node])
    trackers = 0.0
    gradients = 0.0
    strength = 0.0
    way = 0.0
    for j in others:
        gradient = working_gradient(setting, state, j, state.x[j])
        way += norm(state.x[j] - state.origin[j])
        S = S + state.z[j] - gradient
        trackers += norm(state.z[j])
        gradients += norm(gradient)
        strength += setting.objectives[j].curvature.a
        if j in state.inherited:
            strength += float(np.linalg.eigvalsh(state.inherited[j].H)[0])
    near = trackers <= 0.2 * gradients and trackers / len(others) <= 0.4 * norm(S)
    near = near and trackers / strength <= 3 * way / len(others) if strength > 0 else False
    if not near or strength <= 0 or not S.any():
        return None
    return Quad(np.zeros((S.size, S.size)), S, 0.0, frozenset({node}))


def settle(setting: Setting, state: State, node: int) -> None:
    """Let one node make up for what trackers hold beyond gradients, so that both sum to the same.

    That is minus the surplus of the node that died, so that no other node has to change anything.
    """
    beyond = np.zeros_like(state.x[node])
    for j in sorted(state.neighbours):
        beyond = beyond + state.z[j] - working_gradient(setting, state, j, state.x[j])
    state.z[node] = state.z[node] - beyond


# --- returns, joins, forgets ------------------------------------------------------------------


def withdraw(state: State, node: int, part: Quad | None) -> tuple[int | None, bool]:
    """Take the node's legacy out of what its holder inherited; who that is, and if exactly."""
    for holder in sorted(state.inherited):
        held = state.inherited[holder]
        if node not in held.members:
            continue
        assert part is not None
        x = state.x[holder]
        rest = quad_without(held, part, node, x)
        state.z[holder] = state.z[holder] - quad_gradient(held, x)
        del state.inherited[holder]
        if rest is not None:
            state.inherited[holder] = rest
            state.z[holder] = state.z[holder] + quad_gradient(rest, x)
        return holder, node not in held.blended
    return None, True


def quad_without(held: Quad, part: Quad, node: int, x: Vector) -> Quad | None:
    """The difference; out of a compressed sum, with curvature below zero raised to zero.

    The gradient at x is the same then.
    """
    members = held.members - {node}
    if not members:
        return None
    H, p, c = held.H - part.H, held.p - part.p, held.c - part.c
    values, basis = np.linalg.eigh((H + H.T) / 2)
    if node in held.blended and values[0] < 0:
        raised = basis @ np.diag(np.maximum(values, 0.0)) @ basis.T
        value, slope = 0.5 * float(x @ H @ x) + float(p @ x) + c, H @ x + p
        H, p = raised, slope - raised @ x
        c = value - 0.5 * float(x @ H @ x) - float(p @ x)
    # what a compressed node leaves behind is among all others from now on
    return Quad(H, p, c, members, members if node in held.blended else held.blended)


def come_in(
    setting: Setting, state: State, node: int, known: Iterable[int], holder: int | None
) -> tuple[int, list[int]]:
    """A node comes in at its sponsor's iterate; returns the sponsor and the new neighbours."""
    neighbours = sorted(j for j in known if j in state.neighbours)
    if not neighbours:
        neighbours = [min(state.neighbours) if holder is None else holder]
    sponsor = neighbours[0] if holder is None else holder
    state.neighbours[node] = set(neighbours)
    for j in neighbours:
        state.neighbours[j].add(node)
    state.x[node] = state.x[sponsor].copy()
    state.z[node] = working_gradient(setting, state, node, state.x[node])
    return sponsor, neighbours


# --- measuring and running --------------------------------------------------------------------


def worst_error(setting: Setting, state: State) -> float:
    """The largest distance of a node alive from the optimum."""
    worst = 0.0
    for j in sorted(state.neighbours):
        distance = norm(state.x[j] - setting.optimum)
        if math.isnan(distance):
            return distance
        worst = max(worst, distance)
    return worst


def invariant_gap(setting: Setting, state: State) -> float:
    """|sum z - sum grad h| over the nodes alive; zero under `prop:invariant`."""
    total = np.zeros_like(setting.optimum)
    for j in sorted(state.neighbours):
        total = total + state.z[j] - working_gradient(setting, state, j, state.x[j])
    return norm(total)


def starting_state(
    setting: Setting, edges: Iterable[Edge], start: Vector | None, absent: set[int]
) -> State:
    """x at the start (zero unless given; one row per node, or one row for all), z = grad f(x)."""
    n = len(setting.objectives)
    shape = (n, setting.optimum.size)
    given = np.zeros(shape) if start is None else np.asarray(start, dtype=np.float64)
    rows = np.broadcast_to(given, shape)
    neighbours = build_graph(n, edges)
    for node in absent:
        for j in neighbours[node]:
            neighbours[j].remove(node)
        del neighbours[node]
    origin = {i: rows[i].copy() for i in range(n)}
    state = State(neighbours=neighbours, x={}, z={}, u={}, inherited={}, origin=origin)
    for i in range(n):
        state.u[i] = rows[i].copy()
        if i not in absent:
            state.x[i] = rows[i].copy()
            state.z[i] = working_gradient(setting, state, i, state.x[i])
    return state


def schedule(n: int, events: Iterable[Event]) -> dict[int, list[Event]]:
    """What happens at the end of which round, in the order in which it happens."""
    by_round: dict[int, list[Event]] = {}
    for event in events:
        if event.round < 1 or not 0 <= event.node < n:
            raise ValueError(f"{event} is before the end of round 1, or of no node")
        by_round.setdefault(event.round, []).append(event)
    for happening in by_round.values():
        happening.sort(key=lambda event: (KINDS.index(event.kind), event.node))
    return by_round


def run(
    objectives: Sequence[Objective],
    edges: Iterable[Edge],
    departures: Iterable[tuple[int, int]],
    wills: Mapping[int, Will],
    rounds: int,
    paces: float | Sequence[tuple[int, float]],
    optimum: Vector,
    start: Vector | None = None,
    pilot: Pilot | None = None,
    method: str = "gradient tracking",
    metric: str = "scalar",
) -> ReferenceRun:
    """Run `alg:lgt` for `rounds` rounds; a node leaving "at round t" leaves at the end of it."""
    leaving = list(departures)
    if len({node for node, _ in leaving}) < len(leaving):
        raise ValueError("a node leaves twice")
    return run_events(
        objectives,
        edges,
        [Event("departure", node, t) for node, t in leaving],
        {(node, t): wills[node] for node, t in leaving},
        rounds,
        paces,
        lambda _: optimum,
        start,
        pilot,
        method=method,
        metric=metric,
    )


def run_events(
    objectives: Sequence[Objective],
    edges: Iterable[Edge],
    events: Iterable[Event],
    wills: Mapping[tuple[int, int], Will],
    rounds: int,
    paces: float | Sequence[tuple[int, float]],
    optimum_of: Callable[[frozenset[int]], Vector],
    start: Vector | None = None,
    pilot: Pilot | None = None,
    buddies: int = 1,
    checkpoint_every: int | None = 20,
    method: str = "gradient tracking",
    metric: str = "scalar",
    recalls: bool = True,
) -> ReferenceRun:
    """Run `alg:lgt` with every kind of event, each at the end of its round.

    `wills` are by node and by the round in which it leaves or crashes. error[t] and gap[t] are
    taken after round t and what happens at its end; index 0 is the start. What is scheduled after
    the last round has not happened yet. `paces` is one number, as given, or all that were chosen,
    as (after which round, which): how they are chosen is not the reference's business, but they
    must be stable.
    """
    chosen = not isinstance(paces, float)
    by_since = [(0, paces)] if isinstance(paces, float) else list(paces)
    n, edges = len(objectives), list(edges)
    happening = schedule(n, events)
    joins = [event for now in happening.values() for event in now if event.kind == "join"]
    absent = {event.node for event in joins}
    known: dict[int, Iterable[int]] = dict(build_graph(n, edges))
    for event in joins:
        if event.neighbours is not None:
            known[event.node] = event.neighbours
    counted = frozenset(range(n)) - absent
    best = np.asarray(optimum_of(counted), dtype=np.float64)
    setting = Setting(objectives, by_since[0][1], best, pilot, method, metric)
    state = starting_state(setting, edges, start, absent)
    error = [worst_error(setting, state)]
    gap = [invariant_gap(setting, state)]
    records: list[Departure] = []
    changes: list[Change] = []
    lost: set[int] = set()
    bequeathed: dict[int, Quad | None] = {}
    kept: dict[int, Checkpoint] = {}

    def checkpoint(nodes: Iterable[int], t: int, remaining: int) -> None:
        """These nodes send their buddies what they would bequeath now."""
        for node in sorted(nodes):
            coming = sorted(
                event.round
                for now in happening.values()
                for event in now
                if event.node == node and event.kind == "crash" and event.round >= t
            )
            will = wills.get((node, coming[0])) if coming else None
            kept[node] = make_checkpoint(setting, state, node, t, will, remaining)

    def checkpoint_heirs(t: int) -> None:
        """Who has inherited sends a checkpoint at once: others may still come in this round."""
        heirs = {j for j in state.heirs if j in state.neighbours}
        state.heirs = set()
        checkpoint(heirs, t, len(state.neighbours) - 1)

    checkpoint(state.neighbours, 0, len(state.neighbours) - 1)
    for t in range(1, rounds + 1):
        setting.pace = [pace for since, pace in by_since if since < t][-1]
        if chosen and (t == 1 or t - 1 in happening):
            check_stability(setting, state)
        play_round(setting, state)
        now = happening.get(t, [])
        if checkpoint_every is not None and t % checkpoint_every == 0:
            checkpoint(state.neighbours, t, len(state.neighbours) - 1)
        newcomers: dict[int, int] = {}  # with how many others were there when they came

        crashed = {event.node for event in now if event.kind == "crash"}
        settlers: list[int] = []
        hubs: list[int] = []
        before = {node: set(others) for node, others in state.neighbours.items()}
        for node in sorted(crashed):
            keepers = buddies_of(before, node, buddies)
            found = None if checkpoint_every is None else kept[node]
            will = wills.get((node, t))
            slope = None
            if recalls and will is not None and will["kind"] not in ("classic", "forgetful"):
                slope = recall(setting, state, node) if crashed == {node} else None
            record = crash(state, node, t, crashed, keepers, found, slope)
            own = None if found is None or record["heir"] is None else found.legacy
            bequeathed[node] = None if own is None else own.quad
            if record["choice"] == "recall":
                bequeathed[node] = slope
            records.append(record)
            lost |= set(record["lost"])
            settlers += [] if record["adopter"] is None else [record["adopter"]]
            hubs.append(record["hub"])
        if crashed:
            settle(setting, state, (settlers + hubs)[0])
            checkpoint_heirs(t)

        leaving_now = {event.node for event in now if event.kind == "departure"}
        for node in sorted(leaving_now):
            will = wills[node, t]
            choice, _ = decide(setting, state, node, t, will, len(state.neighbours) - 1)
            leg = None
            if choice not in ("none", "classic"):
                leg = own_legacy(setting, state, node, t, will, choice)
            bequeathed[node] = None if leg is None else leg.quad
            record = leave(setting, state, node, t, will, leaving_now)
            records.append(record)
            lost |= set(record["lost"])
        checkpoint_heirs(t)

        for event in now:
            if event.kind in ("crash", "departure"):
                continue
            holder, exact = None, True
            if event.kind != "join":
                holder, exact = withdraw(state, event.node, bequeathed[event.node])
                lost.discard(event.node)
            sponsor: int | None = None
            neighbours: list[int] = []
            if event.kind == "forget":
                counted = counted - {event.node}
            else:
                sponsor, neighbours = come_in(setting, state, event.node, known[event.node], holder)
                part = bequeathed.get(event.node)
                if holder is not None and part is not None:
                    # the memory goes home: its gradient changes hands
                    slope = quad_gradient(part, state.x[holder])
                    state.z[holder] = state.z[holder] + slope
                    state.z[event.node] = state.z[event.node] - slope
                newcomers[event.node] = len(state.neighbours) - 1
                counted = counted | {event.node}
            changes.append(
                {
                    "kind": event.kind,
                    "node": event.node,
                    "round": t,
                    "holder": holder,
                    "sponsor": sponsor,
                    "neighbours": neighbours,
                    "exact": exact,
                }
            )

        setting.optimum = np.asarray(optimum_of(counted), dtype=np.float64)
        for node, others in newcomers.items():
            checkpoint([node], t, others)
        error.append(worst_error(setting, state))
        gap.append(invariant_gap(setting, state))
    survivors = sorted(state.neighbours)
    return ReferenceRun(
        survivors=survivors,
        X=np.array([state.x[j] for j in survivors]),
        Z=np.array([state.z[j] for j in survivors]),
        error=np.array(error),
        gap=np.array(gap),
        departures=records,
        inherited=dict(state.inherited),
        lost=lost,
        edges=edge_set(state.neighbours),
        changes=changes,
    )
