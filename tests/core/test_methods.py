"""The methods: what they are in the textbooks, what every one keeps, and when they are stable."""

import numpy as np
import pytest
import scenarios

import bequest as bq
from bequest.core import mixing, rounds
from bequest.core.methods import Conditions, Local, Method

NAMES = list(scenarios.METHODS)
EXACT = list(scenarios.EXACT_METHODS)
PAIR = bq.Problem([bq.Quadratic([[2.0]], [3.0]), bq.Quadratic([[1.0]], [0.0])])


class Network:
    """Quadratics 1/2 (x - c)'H(x - c) on a graph, as dense matrices."""

    def __init__(self, graph, hessians, centres):
        self.graph, self.H, self.c = graph, np.asarray(hessians), np.asarray(centres)
        self.n, self.dim = self.c.shape
        edges = np.asarray(graph.edges).reshape(-1, 2)
        self.weights = mixing.metropolis(edges, self.n)
        self.W = self.weights.toarray()
        values = np.linalg.eigvalsh(self.H)
        self.conditions = Conditions.of(
            np.arange(self.n),
            values[:, 0],
            values[:, -1],
            values[:, 0],
            self.weights,
            float(np.linalg.eigvalsh(self.H.mean(axis=0))[0]),
        )

    def gradient(self, X):
        return np.matvec(self.H, X - self.c)

    def pace(self, method):
        return method.first_pace(self.conditions).value

    def local(self, method, pace):
        return method.localise(
            pace,
            own_weight=np.diag(self.W)[:, None],
            stiffness=np.linalg.eigvalsh(self.H)[:, -1:],
            bound=lambda: self.H,
        )

    def run(self, method, pace, X, S=None, count=1):
        """All x, and all z, after each of so many rounds."""
        G = self.gradient(X)
        slots = np.zeros((3, count + 1, *X.shape))
        slots[:, 0] = X, G if S is None else G + S, G

        def write(points, out):
            out[...] = self.gradient(points)

        local = self.local(method, pace)
        rounds.advance(
            *slots,
            rounds=count,
            method=method,
            local=local,
            hear=self.hear(method, local),
            gradient=write,
        )
        return slots[0], slots[1], slots[2]

    def hear(self, method, local):
        if not method.hears_differences:
            return rounds.averages(lambda said, out: np.matmul(self.W, said, out))
        laplacian = local.coupling * (np.eye(self.n) - self.W)
        return rounds.differences(lambda said, out: np.matmul(laplacian, said, out))

    def radius(self, method, pace):
        """The largest factor by which a round can multiply (x - x*, s - s*), sums of s kept."""
        n, d = self.n, self.dim
        size = n * d
        # differences of s to node 0's: their sum stays zero
        spread = np.kron(np.eye(n)[:, 1:] - np.eye(n)[:, :1], np.eye(d))
        linear = Network(self.graph, self.H, np.zeros_like(self.c))
        images = []
        for column in np.eye(size + size - d):
            X = column[:size].reshape(n, d)
            S = (spread @ column[size:]).reshape(n, d)
            x, z, g = (one[1] for one in linear.run(method, pace, X, S))
            kept = np.linalg.lstsq(spread, (z - g).ravel(), rcond=None)[0]
            images.append(np.concatenate([x.ravel(), kept]))
        return float(np.abs(np.linalg.eigvals(np.array(images).T)).max())


def network(seed, *, kappa=10.0, scale=1.0, n=None, dim=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8)) if n is None else n
    dim = int(rng.integers(1, 4)) if dim is None else dim
    graph = scenarios.graph(rng, n) if n > 1 else bq.Graph([], n=1)
    H = []
    for _ in range(n):
        basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        values = scale * np.exp(rng.uniform(0, np.log(kappa), dim))
        H.append((basis * values) @ basis.T)
    return Network(graph, H, rng.standard_normal((n, dim)))


# --- what they are in the textbooks ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_gradient_tracking_and_diging_track_the_mean_gradient(seed):
    net = network(seed)
    W, a = net.W, 0.01
    X = np.random.default_rng(seed).standard_normal((net.n, net.dim))
    atc, cta = (net.run(m(a), a, X, count=6)[0] for m in (bq.GradientTracking, bq.methods.DIGing))
    x, y = X, net.gradient(X)
    u, v = X, net.gradient(X)
    for t in range(1, 7):
        x_next, u_next = W @ (x - a * y), W @ u - a * v
        y = W @ y + net.gradient(x_next) - net.gradient(x)
        v = W @ v + net.gradient(u_next) - net.gradient(u)
        x, u = x_next, u_next
        np.testing.assert_allclose(atc[t], x, atol=1e-12)
        np.testing.assert_allclose(cta[t], u, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_extra_is_that_of_shi_ling_wu_and_yin(seed):
    """x'' = (I + W) x' - (I + W)/2 x - a (g' - g), after x' = W x - a g."""
    net = network(seed)
    W, a = net.W, 0.02
    X = np.random.default_rng(seed).standard_normal((net.n, net.dim))
    ours = net.run(bq.methods.EXTRA(a), a, X, count=6)[0]
    before, x = X, W @ X - a * net.gradient(X)
    np.testing.assert_allclose(ours[1], x, atol=1e-12)
    for t in range(2, 7):
        step = a * (net.gradient(x) - net.gradient(before))
        before, x = x, x + W @ x - (before + W @ before) / 2 - step
        np.testing.assert_allclose(ours[t], x, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mixing", [0.5, 2 / 3, 1.0])
def test_exact_diffusion_is_adapt_correct_combine(seed, mixing):
    """psi = x - a g; phi = psi + x - psi_before; x = (I + W)/2 phi; with W instead it is D2."""
    net = network(seed)
    half, a = (1 - mixing) * np.eye(net.n) + mixing * net.W, 0.02
    X = np.random.default_rng(seed).standard_normal((net.n, net.dim))
    ours = net.run(bq.methods.ExactDiffusion(a, mixing), a, X, count=6)[0]
    x, psi_before = X, X
    for t in range(1, 7):
        psi = x - a * net.gradient(x)
        x, psi_before = half @ (psi + x - psi_before), psi
        np.testing.assert_allclose(ours[t], x, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_nids_is_that_of_li_shi_and_yan(seed):
    """With steps of the nodes' own, A = 1/P: x'' = (I - c A (I - W)) (2x' - x - A (g' - g))."""
    net = network(seed)
    c = net.pace(bq.NIDS())
    X = np.random.default_rng(seed).standard_normal((net.n, net.dim))
    ours = net.run(bq.NIDS(), c, X, count=6)[0]
    A = 1 / np.maximum(
        np.linalg.eigvalsh(net.H)[:, -1:] / 1.9, 1.58 * c * (1 - np.diag(net.W)[:, None])
    )
    mix = np.eye(net.n) - c * A * (np.eye(net.n) - net.W)
    before, x = X, mix @ (X - A * net.gradient(X))
    np.testing.assert_allclose(ours[1], x, atol=1e-12)
    for t in range(2, 7):
        corrected = 2 * x - before - A * (net.gradient(x) - net.gradient(before))
        before, x = x, mix @ corrected
        np.testing.assert_allclose(ours[t], x, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_admm_is_that_of_ling_shi_wu_and_ribeiro(seed):
    """x' = x - (g + dual + c L x)/P; dual' = dual + c L x', L = I - W."""
    net = network(seed)
    method = bq.methods.ADMM("hessian")
    c = net.pace(method)
    X = np.random.default_rng(seed).standard_normal((net.n, net.dim))
    ours = net.run(method, c, X, count=6)[0]
    L = c * (np.eye(net.n) - net.W)
    spread = 1.58 * c * (1 - np.diag(net.W))
    P = net.H / 1.4 + spread[:, None, None] * np.eye(net.dim)
    x, dual = X, L @ X
    for t in range(1, 7):
        x = x - np.linalg.solve(P, (net.gradient(x) + dual + L @ x)[..., None])[..., 0]
        dual = dual + L @ x
        np.testing.assert_allclose(ours[t], x, atol=1e-10)


def test_dgd_has_no_memory():
    net = network(1)
    X = np.random.default_rng(1).standard_normal((net.n, net.dim))
    x, z, g = net.run(bq.methods.DGD(0.01), 0.01, X, count=3)
    np.testing.assert_allclose(x[3], net.W @ x[2] - 0.01 * net.gradient(x[2]), atol=1e-13)
    np.testing.assert_allclose(z, g, atol=1e-13)


# --- the contract ------------------------------------------------------------------------------


class _Exchanged(bq.GradientTracking):
    """Says its vectors in the other order: what it hears last is the next x."""

    label = "exchanged"

    def message(self, x, z, local, out=None):
        return super().message(x, z, local, out)[::-1]

    def advance(self, x, z, said, heard, local, out=None):
        return heard[1], heard[0]


class _Twofold(bq.GradientTracking):
    """What it hears first is the next x in odd rounds, and a part of the next z in even ones."""

    label = "twofold"

    def at(self, local, t):
        return Local(local.pace if t % 2 else -local.pace, local.step)

    def advance(self, x, z, said, heard, local, out=None):
        return heard if local.pace > 0 else (heard[1], heard[0])


@pytest.mark.parametrize("kind", [*NAMES, "exchanged", "twofold"])
def test_where_what_is_heard_is_written_changes_nothing(kind):
    method = {"exchanged": _Exchanged(0.01), "twofold": _Twofold(0.01), **scenarios.METHODS}[kind]
    net, pace = network(3, n=6, dim=3), 0.01
    local = net.local(method, pace)
    X = np.random.default_rng(3).standard_normal((net.n, net.dim))
    G = net.gradient(X)
    hear = net.hear(method, local)
    x, z, g = X, G, G
    there = net.run(method, pace, X, count=6)
    for t in range(1, 7):
        now = method.at(local, t)
        said = method.message(x, z, now)
        x_next, kept = method.advance(x, z, said, hear(said), now)
        g_next = net.gradient(x_next)
        x, z, g = x_next, kept + g_next - g, g_next
        np.testing.assert_array_equal(there[0][t], x)
        np.testing.assert_array_equal(there[1][t], z)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_what_some_nodes_gain_the_others_lose(name, seed):
    """What ``advance`` adds to the z of all nodes sums to zero; x and z are left alone."""
    method, net = scenarios.METHODS[name], network(seed, dim=3)
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, net.n, net.dim))
    before = x.copy(), z.copy()
    local = net.local(method, net.pace(method))
    said = method.message(x, z, local)
    assert len(said) == method.vectors
    assert all(one.shape == x.shape for one in said)
    given = tuple(one.copy() for one in said)
    there, kept = method.advance(x, z, given, net.hear(method, local)(said), local)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(z, before[1])
    scale = 1 + np.abs(kept).max() + np.abs(z).max()
    np.testing.assert_allclose((kept - z).sum(axis=0), 0.0, rtol=0, atol=1e-13 * scale)
    assert (method.label == "DGD") == (not np.abs(kept - z).max() > 1e-6)
    assert there.shape == x.shape


@pytest.mark.parametrize("name", NAMES)
def test_a_node_computes_what_its_row_does(name):
    """One vector at a time, or all rows at once, into arrays of its own or into given ones."""
    method, net = scenarios.METHODS[name], network(3, dim=3)
    x, z = np.random.default_rng(3).standard_normal((2, net.n, net.dim))
    pace = net.pace(method)
    whole = net.local(method, pace)
    said = method.message(x, z, whole, np.empty_like(x))
    heard = tuple(net.W @ one for one in said)
    out = np.empty_like(x)
    there, kept = method.advance(x, z, said, tuple(h.copy() for h in heard), whole, out)
    for row in range(net.n):
        own = method.localise(
            pace,
            own_weight=float(net.W[row, row]),
            stiffness=float(np.linalg.eigvalsh(net.H[row])[-1]),
            bound=lambda row=row: net.H[row],
        )
        assert own.pace == pace
        assert np.ndim(own.step) == 0
        mine = method.message(x[row], z[row], own)
        for one, all_of_them in zip(mine, said, strict=True):
            np.testing.assert_allclose(one, all_of_them[row], atol=1e-13)
        one, two = method.advance(x[row], z[row], mine, tuple(h[row].copy() for h in heard), own)
        np.testing.assert_allclose(one, there[row], atol=1e-12)
        np.testing.assert_allclose(two, kept[row], atol=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_a_fixed_point_is_the_minimiser(name):
    """All x agree, s is minus the gradient, and a round changes neither."""
    method, net = scenarios.METHODS[name], network(5, n=6, dim=2)
    best = np.linalg.solve(net.H.sum(axis=0), np.matvec(net.H, net.c).sum(axis=0))
    X = np.tile(best, (net.n, 1))
    x, z, _ = net.run(method, net.pace(method), X, -net.gradient(X), count=3)
    np.testing.assert_allclose(x[3], X, rtol=0, atol=1e-12)
    np.testing.assert_allclose(z[3], 0, rtol=0, atol=1e-11)


def test_where_all_agree_nothing_flows_at_all():
    """Differences of equal numbers are zero to the last bit, however the weights round."""
    net = network(2, n=7, dim=2)
    laplacian = np.eye(net.n) - net.W
    differ = rounds.differences(lambda said, out: np.matmul(laplacian, said, out))
    (heard,) = differ((np.full((7, 2), 0.1),))
    assert not heard.any()


def test_a_method_of_your_own_says_what_it_lacks():
    class Mine(Method):
        vectors = 1
        given = None

        def message(self, x, z, local, out=None):
            return (x,)

        def advance(self, x, z, said, heard, local, out=None):
            return x - heard[0], z

    mine, net = Mine(), network(0)
    assert mine.label == "Mine"
    with pytest.raises(bq.errors.InvalidMethod, match="cannot choose its pace"):
        mine.first_pace(net.conditions)
    assert mine.next_pace(0.1, net.conditions, 5) is None
    assert mine.own_step(0.1, 3.0) == 0.1
    assert mine.localise(0.1, own_weight=0.5, stiffness=1.0, bound=lambda: None) is not None


@pytest.mark.parametrize("vectors", [0, -1, 1.5, "two"])
def test_a_method_that_says_nothing_is_refused(vectors):
    method = type("Silent", (bq.methods.DGD,), {"vectors": vectors})()
    with pytest.raises(bq.errors.InvalidMethod, match="Silent says that it sends"):
        bq.solve(PAIR, [(0, 1)], rounds=1, method=method)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "fast", True])
@pytest.mark.parametrize("name", NAMES)
def test_paces_that_make_no_sense(name, bad):
    kind = type(scenarios.METHODS[name])
    field = "coupling" if hasattr(scenarios.METHODS[name], "coupling") else "step"
    with pytest.raises(bq.errors.InvalidMethod):
        kind(**{field: bad})


@pytest.mark.parametrize("kind", [bq.NIDS, bq.methods.ADMM])
def test_metrics_that_make_no_sense(kind):
    with pytest.raises(bq.errors.InvalidMethod, match="metric"):
        kind(metric="diagonal")


# --- stability -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", EXACT)
def test_chosen_paces_are_stable_where_losses_differ(name, seed):
    """By the eigenvalues of a whole round, on many graphs: every mode but the sum of s decays."""
    method, net = scenarios.METHODS[name], network(seed, kappa=[3.0, 30.0, 1e3][seed % 3])
    assert net.radius(method, net.pace(method)) < 1


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [1e-4, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("name", ["NIDS", "NIDS, hessian", "ADMM", "ADMM, hessian"])
def test_no_coupling_is_unstable(name, share, seed):
    """P is raised along with it, so that every node sees to it alone."""
    method, net = scenarios.METHODS[name], network(seed)
    stiffest = float(np.linalg.eigvalsh(net.H).max())
    assert net.radius(method, share * stiffest) < 1 + 1e-10


@pytest.mark.parametrize("name", ["NIDS", "NIDS, hessian", "ADMM", "ADMM, hessian"])
@pytest.mark.parametrize("held", [0.751, 0.749])
def test_three_quarters_of_the_mixing_are_what_a_metric_has_to_hold(name, held, monkeypatch):
    """Two nodes, for which 2 (1 - w_ii) is an eigenvalue of I - W; nearly flat losses."""
    monkeypatch.setattr("bequest.core.methods.primal_dual._HELD", held)
    net = Network(bq.graphs.path(2), 1e-6 * np.ones((2, 1, 1)), np.zeros((2, 1)))
    assert (net.radius(scenarios.METHODS[name], 1.0) < 1) == (held > 0.75)


@pytest.mark.parametrize("name", ["gradient tracking", "DIGing", "EXTRA", "exact diffusion"])
@pytest.mark.parametrize("graph", [bq.graphs.ring(6), bq.graphs.star(5), bq.graphs.complete(4)])
def test_the_limits_of_a_step_are_sharp(name, graph):
    """With one Hessian everywhere: stable just below, and not just above."""
    method = scenarios.METHODS[name]
    net = Network(graph, 3.0 * np.ones((graph.n, 1, 1)), np.zeros((graph.n, 1)))
    w = float(np.linalg.eigvalsh(net.W)[0])
    limit = {
        "gradient tracking": 2.0 if w >= 0 else min(2.0, (1 - w * w) / -w),
        "DIGing": (1 + w) ** 2 / 2,
        "EXTRA": (5 + 3 * w) / 4,
        "exact diffusion": 2.0,
    }[name]
    assert net.radius(method, 0.999 * limit / 3) < 1 < net.radius(method, 1.001 * limit / 3)
    assert method.first_pace(net.conditions).value < limit / 3


@pytest.mark.parametrize("graph", [bq.graphs.ring(6), bq.graphs.path(4), bq.graphs.grid(3, 3)])
@pytest.mark.parametrize("a", [1e-3, 0.5, 1.0, 1.3])
def test_the_limit_of_the_mixing_is_sharp(graph, a):
    """Stable up to l = 1 + 1/(3 - 2a), which is 4/3 where steps are short, and not beyond."""
    net = Network(graph, np.ones((graph.n, 1, 1)), np.zeros((graph.n, 1)))
    w = float(np.linalg.eigvalsh(net.W)[0])
    limit = (1 + 1 / (3 - 2 * a)) / (1 - w)
    for part in (0.999, 1.001):
        method = bq.methods.ExactDiffusion(a)
        object.__setattr__(method, "mixing", part * limit)  # 1 is the most that a user may give
        assert (net.radius(method, a) < 1) == (part < 1)


@pytest.mark.parametrize("seed", range(20))
def test_mixing_two_thirds_is_stable_on_every_graph(seed):
    """Also where weights have an eigenvalue near -1, losses differ and steps are the longest."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    graph = bq.Graph([(i, n + j) for i in range(n) for j in range(n)], n=2 * n)
    net = network(seed, kappa=[1.0, 1e3][seed % 2], n=2 * n, dim=1)
    net = Network(graph, net.H, net.c)
    w = float(np.linalg.eigvalsh(net.W)[0])
    assert w < -1 / 3
    method = bq.methods.ExactDiffusion()
    stiffest = float(net.H.max())
    for share in (1e-3, 0.3, 1.0, 1.99):
        assert net.radius(method, share / stiffest) < 1
    d2 = bq.methods.ExactDiffusion(mixing=1.0)
    assert net.radius(d2, 1e-3 / stiffest) > 1


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.1, np.nan, "half", None, True])
def test_mixings_that_make_no_sense(bad):
    with pytest.raises(bq.errors.InvalidMethod, match="mixing"):
        bq.methods.ExactDiffusion(mixing=bad)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_lowered_for_a_stiff_heir_and_not_otherwise(name):
    method, net = scenarios.METHODS[name], network(4, n=6)
    pace = net.pace(method)
    same = method.next_pace(pace, net.conditions, 7)
    assert same is None
    heir = dict(net.conditions.stiffness)
    heir[2] = 1e3 * max(heir.values())
    stiffer = Conditions(net.conditions.strength, heir, heir, net.weights)
    changed = method.next_pace(pace, stiffer, 7)
    assert changed.since == 7
    if hasattr(method, "coupling"):
        assert changed.value > 0
    else:
        assert changed.value < pace
        assert "node 2 now carries" in changed.why


# --- the choice of a pace ------------------------------------------------------------------------


def alike(*, strength=1.0, stiffness=100.0, floor=1.0, graph=None, modulus=0.0, **more):
    """Conditions of nodes with the same curvatures, on a ring or another graph."""
    graph = graph or bq.graphs.ring(20)
    of_all = (np.full(graph.n, value) for value in (strength, stiffness, floor))
    return Conditions.of(np.arange(graph.n), *of_all, graph.weights(), modulus, **more)


@pytest.mark.parametrize("part", [0.5, 1e-2, 1e-4, 0.0])
def test_a_coupling_for_matrices_is_larger_the_flatter_losses_may_be_than_they(part):
    """Between those for matrices and for numbers."""
    conditions = alike(strength=part)
    method = bq.NIDS(metric="hessian", safety=0.9)
    matrices = method._scanned(conditions, 0).value
    numbers = bq.NIDS(safety=0.9).first_pace(conditions.of_numbers).value
    chosen = method.first_pace(conditions)
    assert matrices < chosen.value < numbers or part == 0.0
    share = np.log(chosen.value / matrices) / np.log(numbers / matrices)
    assert share == pytest.approx(1 - part**0.25, abs=0.02)
    assert "flatter than their matrices" in chosen.why


@pytest.mark.parametrize("flat", [1.0, 0.0, 1e-15])
def test_a_coupling_for_matrices_is_theirs_where_losses_are_as_flat_as_they(flat):
    """Quadratics are; and where neither is curved, rounding says nothing."""
    conditions = alike(strength=flat, floor=flat or 1e-14)
    method = bq.NIDS(metric="hessian")
    chosen, scanned = (choose(conditions, 0) for choose in (method._chosen, method._scanned))
    assert chosen.value == pytest.approx(scanned.value, rel=1e-4)


def test_a_mean_that_is_flat_nowhere_lets_neighbours_pull_harder():
    """Nodes that are flat in different directions: their mean metric is not as flat as they are."""
    method = bq.NIDS(metric="hessian")
    graph = bq.graphs.complete(6)
    narrow, wide = (alike(graph=graph, modulus=80.0, shared_floor=floor) for floor in (0.0, 80.0))
    assert method.first_pace(wide).value > 1.5 * method.first_pace(narrow).value
    # one that is flatter than the nodes are says nothing
    assert method.first_pace(alike(shared_floor=0.5)) == method.first_pace(alike())


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(("n", "dim"), [(1, 1), (1, 3), (2, 1), (2, 3), (7, 1)])
@pytest.mark.parametrize("name", EXACT)
def test_a_pace_is_chosen_for_the_smallest_networks_and_in_any_unit(name, n, dim, scale):
    method = scenarios.METHODS[name]
    net, unit = network(9, n=n, dim=dim, scale=scale), network(9, n=n, dim=dim)
    pace = net.pace(method)
    assert net.radius(method, pace) < 1
    # a coupling is a curvature, a step one over it
    power = 1 if hasattr(method, "coupling") else -1
    assert pace == pytest.approx(unit.pace(method) * scale**power, rel=1e-6)


@pytest.mark.parametrize("name", EXACT)
def test_a_condition_of_a_million_is_stable_too(name):
    method, net = scenarios.METHODS[name], network(11, n=6, dim=3, kappa=1e6)
    pace = net.pace(method)
    assert 0 < pace < np.inf
    # the slowest mode may be slower than what is left of the digits
    assert net.radius(method, pace) < 1 + 1e-9


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_no_curvature_at_all(name, n):
    """There is nothing to descend, but rounds are rounds: everything stays finite."""
    method = scenarios.METHODS[name]
    graph = bq.graphs.path(n) if n > 1 else bq.Graph([], n=1)
    net = Network(graph, np.zeros((n, 2, 2)), np.zeros((n, 2)))
    pace = method.first_pace(net.conditions).value
    assert 0 < pace < np.inf
    X = np.random.default_rng(0).standard_normal((n, 2))
    with np.errstate(all="raise", under="ignore"):
        x, z, _ = net.run(method, pace, X, count=50)
    assert np.isfinite(x).all()
    assert np.abs(x[50]).max() <= 2 * np.abs(X).max()
    np.testing.assert_allclose(z.sum(axis=1), 0, atol=1e-12)


def test_no_matrix_is_made_where_it_would_be_a_number():
    """Mixing asks every node for more than its curvature does: the metric is that of a scalar."""
    method, net = bq.NIDS("hessian"), network(6, n=6, dim=3, kappa=2.0)
    strong, weak = 10.0, 0.1
    asked = []

    def localised(pace, rows=slice(None)):
        return method.localise(
            pace,
            own_weight=np.diag(net.W)[rows, None],
            stiffness=np.linalg.eigvalsh(net.H)[rows, -1:],
            bound=lambda: asked.append(pace) or net.H[rows],
        )

    assert localised(strong).inverse is None
    assert not asked
    assert localised(weak).inverse.shape == (6, 3, 3)
    assert asked == [weak]
    X = np.random.default_rng(0).standard_normal((6, 3))
    with_matrix, with_number = (net.run(m, strong, X, count=9)[0] for m in (method, bq.NIDS()))
    np.testing.assert_array_equal(with_matrix, with_number)
    # a step that is just short of being one is a matrix again
    edge = (np.linalg.eigvalsh(net.H)[:, -1] / 1.4 / (1.58 * (1 - np.diag(net.W)))).max()
    assert localised(1.001 * edge).inverse is None
    assert localised(0.999 * edge).inverse is not None


@pytest.mark.parametrize("name", ["NIDS, hessian", "ADMM, hessian"])
@pytest.mark.parametrize("engine", [None, bq.engines.Loop()])
def test_a_node_alone_stays_where_its_loss_is_flat(name, engine):
    """Its matrix is singular, and no neighbour makes up for that."""
    rng = np.random.default_rng(4)
    losses = [
        bq.LeastSquares(rng.standard_normal((2, 4)), rng.standard_normal(2)) for _ in range(2)
    ]
    run = bq.solve(
        bq.Problem(losses),
        [(0, 1)],
        departures=[bq.Departure(0, 10)],
        will=bq.wills.Forgetful(),
        method=scenarios.METHODS[name],
        rounds=400,
        start=np.ones(4),
        engine=engine,
        optimum=None,
    )
    assert run.status == "converged"
    assert np.abs(run.x).max() < 10
    assert np.linalg.norm(losses[1].gradient(run.x[0])) < 1e-9


def test_a_scalar_step_descends_like_the_matrix_it_stands_for():
    z = np.array([1.0, -2.0])
    np.testing.assert_array_equal(Local(1.0, 0.5).descend(z), [0.5, -1.0])
    room = np.empty(2)
    whole = Local(1.0, 0.5, 0.5 * np.eye(2)).descend(z, room)
    assert whole is room
    np.testing.assert_array_equal(whole, [0.5, -1.0])


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_is_above_every_hessian(seed):
    """What the matrix metric rests on: for every loss, wherever one looks."""
    rng = np.random.default_rng(seed)
    for loss in scenarios.objectives(rng, 12, 4, mixed=True):
        M = loss.bound()
        assert np.linalg.eigvalsh(M)[-1] <= loss.curvature.b * (1 + 1e-9)
        for x in rng.standard_normal((8, 4)) * 10.0 ** rng.uniform(-2, 2, (8, 1)):
            assert np.linalg.eigvalsh(M - loss.hessian(x))[0] >= -1e-6 * loss.curvature.b
