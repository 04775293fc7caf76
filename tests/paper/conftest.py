"""Small made-up results of all thirteen studies, with numbers that can be checked by hand."""

import numpy as np
import pytest

from bequest.paper import store
from bequest.paper.store import Result

METHODS = ("classic", "GT-C", "GT-M", "GT-P", "Legacy-GT")
FLOORS = {"classic": 2.0, "GT-C": 2e-7, "GT-M": 0.8, "GT-P": 1.5, "Legacy-GT": 2e-7}
DEPARTURES = [10, 20, 25, 30]
ROUNDS = 40
SEEDS = 3


def falling(floor, rounds=ROUNDS, rate=0.3):
    return np.maximum(4.0 * rate ** np.arange(rounds + 1.0), floor)


def method_facts(scale, *, choice="consensus"):
    return {
        name: {
            "status": "converged",
            "final": floor * scale,
            "bias": floor * scale,
            "choices": [choice] * len(DEPARTURES),
        }
        for name, floor in FLOORS.items()
    }


def trajectories():
    for seed, scale in enumerate((0.5, 1.0, 3.0)):
        arrays = {name: falling(floor * scale) for name, floor in FLOORS.items()}
        facts = {"methods": method_facts(scale), "departures": DEPARTURES}
        yield Result("trajectories", f"seed-{seed:02d}", {"seed": seed}, arrays, facts)


# kappa, k, t1 -> the errors of classic and of Legacy-GT; the printed ones lie in between
STRESS = {
    (10, 4, 50): ((3.0, 3.2, 3.6), (0.02, 0.05, 0.09)),
    (30, 8, 50): ((2.0, 2.7, 3.0), (0.2, 0.32, 0.4)),
    (100, 8, 50): ((2.0, 2.7, 3.0), (0.5, 0.66, 0.9)),
    (100, 12, 50): ((3.0, 3.9, 5.0), (0.5, 0.66, 0.9)),
    (100, 12, 800): ((3.0, 3.9, 5.0), (0.06, 0.12, 0.3)),
}


def stress():
    for (kappa, k, t1), errors in STRESS.items():
        for seed, (classic, legacy) in enumerate(zip(*errors, strict=True)):
            params = {"kappa": kappa, "k": k, "t1": t1, "seed": seed}
            name = "_".join(f"{key}-{value}" for key, value in params.items())
            methods = {"classic": {"bias": classic, "choices": ["classic"] * k}}
            for will in ("GT-C", "Legacy-GT", "Legacy-GT, certified"):
                methods[will] = {"bias": legacy, "choices": ["consensus"] * k}
            facts = {"methods": methods, "k_beta": k * (kappa - 1) / 40}
            yield Result("stress", name, params, {}, facts)


def real():
    for dataset, kappa in (("breast-cancer", 300.0), ("digits", 150.0)):
        arrays = {name: falling(floor) for name, floor in FLOORS.items()}
        arrays["classic"] = arrays["classic"] + 0.01 * np.arange(ROUNDS + 1)
        facts = {
            "methods": method_facts(1.0),
            "departures": DEPARTURES[1:],
            "kappa": [3.0, kappa],
        }
        yield Result("real", dataset, {"dataset": dataset}, arrays, facts)


def compare():
    for t1, legacy in ((50, 2e-3), (300, 1e-8)):
        for seed in range(SEEDS):
            methods = {}
            for name, floor in {**FLOORS, "GT-C": legacy, "Legacy-GT": legacy}.items():
                sent = 0 if name == "classic" else 2
                methods[name] = {
                    "bias": floor,
                    "promised": 10 * floor,
                    "tight": 3 * floor,
                    "vectors": sent,
                    "bytes": 92 * sent,
                }
            params = {"t1": t1, "seed": seed}
            yield Result("compare", f"t1-{t1}_seed-{seed}", params, {}, {"methods": methods})


def curvature():
    eta = np.linspace(1.0, 10.0, 46)
    worst = np.maximum(10.0 - eta, eta - 1.0)
    for basis, bests in (("random", (5.4, 6.0, 5.0)), ("shared", (2.0, 2.2, 3.0))):
        for seed, best in enumerate(bests):
            arrays = {
                "eta": eta,
                "mismatch": worst,
                "bias": 0.02 + 0.01 * np.abs(eta - best),
                "promised mismatch": worst,
                "promised bias": worst / (19 + eta),
            }
            facts = {"best eta": best, "midpoint": 5.5}
            params = {"basis": basis, "seed": seed}
            yield Result("curvature", f"basis-{basis}_seed-{seed}", params, arrays, facts)


def point_only():
    times = np.array([10, 40, 160, 480])
    for seed, radius in enumerate((3.0, 4.0, 5.0)):
        bias = np.array([[1.4] * 4, [1.1] * 4, [0.8, 0.1, 1e-3, 1e-9]])
        reached = "unfinished" if seed else "diverged"
        facts = {
            "caps": [0.05, 0.5, None],
            "statuses": [
                ["converged"] * 4,
                ["converged"] * 4,
                ["converged", reached, "diverged", "diverged"],
            ],
            "floors": [6.0, 3.0, None],
            "classic": 1.5,
            "pilot": {"radius": radius, "theta": 0.07 + 0.01 * seed},
        }
        params = {"seed": seed}
        yield Result("point-only", f"seed-{seed}", params, {"bias": bias, "times": times}, facts)


def handoff():
    for seed in range(SEEDS):
        arrays, facts = {}, {}
        for name in ("consensus, exact", "consensus, printed", "local, exact", "local, printed"):
            broken = name == "local, printed"
            gap = np.where(np.arange(ROUNDS + 1) >= DEPARTURES[0], 200.0 + seed, 0.0)
            arrays[f"gap {name}"] = gap if broken else np.full(ROUNDS + 1, 1e-13)
            arrays[f"error {name}"] = falling(1.5 if broken else 0.8)
            facts[name] = {
                "gap": 200.0 + seed if broken else 1e-13,
                "from limit": 2.0 if broken else 1e-14,
                "error": 1.5 if broken else 0.8,
                "bias": 0.8,
            }
        whole = {"combinations": facts, "departures": DEPARTURES}
        yield Result("handoff", f"seed-{seed}", {"seed": seed}, arrays, whole)


def lower_bound():
    kappa = np.array([2.0, 10.0, 100.0])
    for n in (5, 20):
        formula = (kappa - 1) / (n - 1 + kappa)
        arrays = {
            "kappa": kappa,
            "apart": formula,
            "formula": formula,
            "ours": 0.6 * formula,
            "floor": 0.5 * formula,
            "promised": (kappa - 1) / (2 * n) + formula,
        }
        yield Result("lower-bound", f"n-{n:03d}", {"n": n}, arrays, {})


def convex():
    sizes = np.geomspace(1e-4, 1.0, 5)
    for seed in range(SEEDS):
        runs = {
            "classic": {"value gap": 1.0 + seed, "rate": 0.998},
            "Legacy-GT": {"value gap": 1e-3, "rate": 0.99},
            "nobody leaves": {"rate": 0.999},
            "bounds": {"thm:cvx (i)": [0.6, 0.5, True], "prop:certC (a)": [0.3, 0.4, True]},
        }
        arrays = {
            f"gradient {name}": falling(1e-12, rate=rate)
            for name, rate in (("classic", 0.9), ("Legacy-GT", 0.5), ("nobody leaves", 0.8))
        }
        arrays |= {"anchor error": sizes, "value gap": 0.05 * sizes**2}
        facts = {"runs": runs, "departure": DEPARTURES[0]}
        yield Result("convex", f"seed-{seed}", {"seed": seed}, arrays, facts)


def crossover():
    times = np.array([1, 5, 20, 80, 320])
    for setup, rate in (("section51", 0.96), ("stress100", 0.998)):
        for seed in range(SEEDS):
            legacy = 0.1 * rate**times
            arrays = {
                "classic": np.full(5, 2.5 + seed),
                "GT-C": legacy,
                "GT-M": np.full(5, 0.8),
                "GT-P": np.full(5, 1.5),
                "Legacy-GT": legacy,
                "times": times,
            }
            facts = {"choices": [["local" if t <= 5 else "consensus"] * 4 for t in times.tolist()]}
            params = {"setup": setup, "seed": seed}
            yield Result("crossover", f"setup-{setup}_seed-{seed}", params, arrays, facts)


# will -> what it ends at, relative to GT-C, and the vectors it sends
WILLS = {
    "classic": (10.0, 0),
    "forgetful": (10.0, 1),
    "GT-C": (1.0, 2),
    "GT-M": (3.0, 2),
    "Legacy-GT": (1.0, 2),
    "observed": (1e-2, 2),
    "Drift(0)": (1e-4, 2),
    "Drift(1)": (5e-5, 3),
    "Drift(2)": (2e-5, 4),
    "Drift(4)": (1e-5, 6),
    "Drift(8)": (1e-6, 7.5),
    "Drift(4), secant": (2e-5, 6),
    "FullHessian": (1e-15, 7.5),
}


def beyond():
    drawn = ("sec51", "stress", "tilt30", "tilt100", "tilt100-late", "d100", "d100-shared")
    cases = [(name, seed) for name in drawn for seed in range(SEEDS)]
    for setup, seed in [*cases, ("breast-cancer", None), ("digits", None)]:
        methods = {
            name: {
                "status": "unfinished",
                # the gains are those of WILLS, and twice and half of them
                "bias": 0.5 * error * ((1.0, 2.0, 0.5)[seed or 0] if error < 1 else 1.0),
                "vectors": vectors,
                "bytes": int(80 * vectors),
                "illegal": 0,
                "choices": ["none" if vectors < 2 else "drift"] * 4,
            }
            for name, (error, vectors) in WILLS.items()
        }
        edges = {"bias": 0.1, "prox solves": 1234, "vectors per edge and round": 1}
        facts = {"methods": methods, "ADMM": edges, "departures": DEPARTURES}
        params = {"setup": setup} if seed is None else {"setup": setup, "seed": seed}
        name = setup if seed is None else f"setup-{setup}_seed-{seed:02d}"
        yield Result("beyond", name, params, {}, {**facts, "nodes": 20, "dim": 10})


RULES = ("observed", "certified", "paper's oracle", "observed, with drift")
# round -> how far drift, consensus, local and none move the optimum, and what the rules take
DECISIONS = {
    10: ((0.5, 2.0, 8.0, 1.0), ("none", "consensus", "consensus", "drift")),
    30: ((0.1, 1.0, 4.0, 2.0), ("consensus", "consensus", "none", "drift")),
    50: ((0.1, 1.0, 4.0, 2.0), ("consensus", "consensus", "consensus", "drift")),
    120: ((4.0, 1.0, 4.0, 2.0), ("consensus", "consensus", "consensus", "drift")),
}


def rules():
    quadratic = ("Sec. 5.1", "stress 10", "stress 100", "tilt 30", "tilt 100")
    logistic = ("alike", "different", "very different", "breast cancer", "digits")
    setups = [f"quadratic, {name}" for name in quadratic] + [f"logistic, {n}" for n in logistic]
    for setup, seed in ((setup, seed) for setup in setups for seed in range(SEEDS)):
        decisions = [
            {
                "round": at,
                "choices": dict(zip(RULES, choices, strict=True)),
                "hindsight": dict(zip(("drift", "consensus", "local", "none"), moved, strict=True)),
            }
            for at, (moved, choices) in DECISIONS.items()
        ]
        if seed == 0:  # no drift where it is worse
            decisions[3]["choices"]["observed, with drift"] = "consensus"
        if seed == 2:  # the only error of the rule from observables
            decisions[2]["choices"]["observed"] = "none"
        name = f"{setup.replace(', ', '-').replace(' ', '-').replace('.', '')}_seed-{seed:02d}"
        params = {"setup": setup, "seed": seed}
        yield Result("rules", name, params, {}, {"decisions": decisions})


# will -> its errors on four instances; the better of forgetting and GT-C has 1, 1, 2 and 0.1
ON_THE_BED = {
    "forgetful": (1.0, 4.0, 2.0, 5.0),
    "GT-C": (3.0, 1.0, 2.0, 0.1),
    "GT-M": (3.0, 4.0, 2.0, 1.0),
    "observed": (1.0, 1.1, 0.02, 1e-4),
    "Drift(0)": (3.0, 1.1, 0.02, 1e-4),
    "Drift(2)": (1.5, 0.5, 0.02, 1e-5),
    "Drift(4)": (1.5, 0.5, 0.02, 1e-5),
    "FullHessian": (1e-15, 1e-15, 0.02, 1e-15),
}


# what a rule chose; forgetting was right three times in four, the local track every time
RULINGS = [
    {
        "choice": choice,
        "predicted": {choice: 1.0, "consensus": 2.0},
        "hindsight": {choice: true, "consensus": 1.5},
    }
    for choice, true in [("none", 1.0)] * 3 + [("none", 9.0), ("local", 1.0)]
]


def robustness():
    ways = ("gradient tracking", "NIDS", "NIDS, Hessian, equal bytes")
    runs = [[way, will] for way in ways for will in ON_THE_BED]
    bias = np.array([ON_THE_BED[will] for _, will in runs]).T
    for first in (10_000, 10_004):
        arrays = {
            "bias": bias,
            "vectors": np.full(bias.shape, 2.0),
            "illegal": np.zeros(bias.shape),
            "stage": np.array([0.9, 0.2, 0.3, 1e-3]),
            "scale": np.full(4, 16.0),
        }
        instances = [
            {
                "seed": first + index,
                "family": "logistic" if index == 2 else "quadratics, tilted",
                "network": "ring",
                "nodes": 8,
                "dim": 20 if index == 1 else 5,
                "exits": [3] * (1 + index % 2),
                "most heterogeneous": True,
                "quadratic": index != 2,
            }
            for index in range(4)
        ]
        facts = {"runs": runs, "instances": instances, "large": False, "decisions": RULINGS}
        yield Result("robustness", f"seeds-{first}", {"first": first, "count": 4}, arrays, facts)
    plain = len(ON_THE_BED)  # the second set, with many unknowns: one method, larger messages
    params = {"first": 20_000, "count": 4, "large": True}
    arrays = {
        name: array[:, :plain] if array.ndim == 2 else array for name, array in arrays.items()
    }
    arrays["vectors"] = np.full((4, plain), 10.0)
    facts = {
        "runs": runs[:plain],
        "instances": [{**one, "dim": 16 + one["seed"] % 4} for one in instances],
        "large": True,
        "decisions": [],
    }
    yield Result("robustness", "large-20000", params, arrays, facts)


# method -> the vectors per edge that it needs; the first two need more where PROTOTYPES says so
VECTORS = {
    "gradient tracking": 600,
    "DIGing": 620,
    "EXTRA": 100,
    "exact diffusion": 70,
    "ADMM": 90,
    "NIDS": 60,
    "NIDS-H": 50,
}
PROTOTYPES = {
    "sec51": 600,
    "stress": 2517,
    "tilt100": 2432,
    "ring20": 1990,
    "ring100": 48000,
    "grid": 3101,
    "grid-stress": 14934,
    "breast-cancer": 6524,
    "digits": 3134,
}
NIDS_RUNS = [f"{m}, equal {b}" for m in ("NIDS", "NIDS-H") for b in ("rounds", "bytes")]


def needed(setup, label, scale=1.0):
    two = label in ("gradient tracking", "DIGing")
    vectors = round(VECTORS[label] * (PROTOTYPES[setup] / 600 if two else 1) * scale)
    rounds = vectors // (2 if two else 1)
    return {"rounds": rounds, "vectors": vectors, "gradients": rounds + 1}


def cases_of(part, names):
    """The cases of a part: its parameters, its name, and a scale that differs by seed."""
    for name in names:
        if name in ("breast-cancer", "digits"):
            yield {"part": part, "setup": name}, f"part-{part}_setup-{name}", 1.0
            continue
        for seed, scale in enumerate((1.0, 1.1, 0.9)):
            params = {"part": part, "setup": name, "seed": seed}
            yield params, f"part-{part}_setup-{name}_seed-{seed:02d}", scale


def methods():
    for name in PROTOTYPES:
        for label in VECTORS:
            params = {"part": "tuned", "setup": name, "method": label}
            seeds = [needed(name, label, 0.9)] * SEEDS
            case = f"part-tuned_setup-{name}_method-{label.replace(' ', '-')}"
            yield Result("methods", case, params, {}, {"factor": 2.0**0.5, "seeds": seeds})
    for params, case, scale in cases_of("speed", PROTOTYPES):
        found = {
            label: needed(params["setup"], label, scale if label == "NIDS" else 1.0)
            for label in VECTORS
        }
        if params["setup"] == "stress":
            found["DIGing"] = dict.fromkeys(("rounds", "vectors", "gradients"))
        facts = {"methods": found, "DGD": {"left": 1.5, "rounds": 2000}, "longest": 600}
        yield Result("methods", case, params, {}, facts)
    leaving = ("sec51", "stress", "tilt100", "tilt100-late", "d100", "breast-cancer", "digits")
    for params, case, scale in cases_of("exits", leaving):
        biases = {"gradient tracking, the setup's step": 2e-3, "gradient tracking": 1e-3}
        biases |= dict.fromkeys(NIDS_RUNS, 1e-05 * scale)
        if params["setup"] == "digits":
            biases["gradient tracking, tuned step"] = 2e-6
        found = {
            will: {run: {"status": "unfinished", "bias": bias} for run, bias in biases.items()}
            for will in ("Consensus", "Drift(0)", "Drift(4)", "FullHessian", "Adaptive")
            if will != "FullHessian" or params["setup"] in leaving[:4]
        }
        yield Result("methods", case, params, {}, {"wills": found})
    for params, case, scale in cases_of("bumps", leaving[:3]):
        peak = {"return": 1.0, "stay": 1.0, "crash": 2.0 * scale}
        levels = {f"{level:g}": peak for level in (1e-2, 1e-5)}
        peaks = {label: dict(levels) for label in VECTORS}
        if params["setup"] == "stress":  # too slow for the last stage
            peaks["DIGing"]["1e-05"] = None
        vanished = {
            str(t): {
                "farewell": 1e-3,
                "forgotten": 1.0,
                "recalled": 1.0 if t == 3 else 4e-3 * scale,
                "unguarded": 4e-3 * scale,
                "trusted": t > 3,
            }
            for t in (3, 50)
        }
        labels = ("gradient tracking", "NIDS", "NIDS-H")
        facts = {"peaks": peaks, "vanished": dict.fromkeys(labels, vanished)}
        yield Result("methods", case, params, {}, facts)


STUDIES = {
    "trajectories": trajectories,
    "stress": stress,
    "real": real,
    "compare": compare,
    "curvature": curvature,
    "point-only": point_only,
    "handoff": handoff,
    "lower-bound": lower_bound,
    "convex": convex,
    "crossover": crossover,
    "beyond": beyond,
    "rules": rules,
    "robustness": robustness,
    "methods": methods,
}


@pytest.fixture(scope="session")
def studies():
    """The results of every study, by its name, in the order of the report."""
    return {name: list(make()) for name, make in STUDIES.items()}


@pytest.fixture(scope="session")
def fill():
    """Write results into a folder."""

    def write(folder, *results):
        for result in results:
            store.write(folder, result)
        return folder

    return write


@pytest.fixture(scope="session")
def everything(tmp_path_factory, studies, fill):
    """A folder with all results and the report on them."""
    from bequest.paper.report import pages

    folder = fill(tmp_path_factory.mktemp("all"), *(r for found in studies.values() for r in found))
    pages.build(folder)
    return folder
