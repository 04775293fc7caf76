"""What is wrong with a model, its loss or its samples: what, where, and what to do about it."""

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, mse_loss
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import bequest as bq
import bequest.jax
import bequest.torch
from bequest.engines import Loop
from bequest.errors import BequestError, Diverged, InvalidObjective, NotFinite

jax.config.update("jax_enable_x64", True)


def pair(m=12, features=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, features)).astype(np.float32)
    return torch.from_numpy(X), torch.from_numpy(np.arange(m) % 3)


def model(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).to(dtype)


def silo(data=None, loss=cross_entropy, module=None, **options):
    module = model() if module is None else module
    return bequest.torch.Silo(module, loss, pair() if data is None else data, **options)


class Short(Dataset):
    """Says that it has more samples than it has."""

    def __len__(self):
        return 9

    def __getitem__(self, k):
        if k == 7:
            raise IndexError("out of range")
        return torch.ones(5), 1


class Ragged(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, k):
        return torch.ones(5 + k), 1


class Endless(Dataset):
    def __getitem__(self, k):
        return torch.ones(5), 1


class Listed(Dataset):
    """Three samples, all of which are this one."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 3

    def __getitem__(self, k):
        return self.sample


class Plain:
    """A dataset that is derived from nothing."""

    def __len__(self):
        return 12

    def __getitem__(self, k):
        X, y = pair()
        return X[k], y[k]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.ones(5), 1)])


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 3)

    def forward(self, x):
        return dropout(self.inner(x), 0.5)  # whatever the mode is


def labels(change):
    X, y = pair()
    y = y.clone()
    return X, change(y)


def loader(**options):
    return DataLoader(TensorDataset(*pair()), **options)


def late_class():
    X, y = pair()
    y = y.clone()
    y[9] = 7  # beyond the first few
    return X, y


def one_number():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))


BAD = {
    "features": (lambda: silo(pair(features=6)), r"inputs of shape \(12, 6\).*mat1"),
    "classes as float": (lambda: silo(labels(torch.Tensor.float)), r"targets .* \(float32\)"),
    "classes as int32": (lambda: silo(labels(torch.Tensor.int)), r"targets .* \(int32\)"),
    "class beyond the outputs": (
        lambda: silo(late_class()),
        "label 7 in sample 9.* 3 outputs: labels go from 0 to 2",
    ),
    "label that is to be ignored": (
        lambda: silo(labels(lambda y: torch.where(y == 2, -100, y))),
        "label -100 in sample 2",
    ),
    "no mean": (
        lambda: silo(loss=lambda out, y: cross_entropy(out, y, reduction="none")),
        r"returned shape \(4,\), and not one number.*reduction=\"mean\"",
    ),
    "batch normalisation": (
        lambda: silo(module=nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))),
        "running statistics.*Use GroupNorm or LayerNorm, which look at one sample at a time.$",
    ),
    "batch normalisation that keeps nothing": (
        lambda: silo(module=nn.Sequential(nn.BatchNorm1d(5, track_running_stats=False))),
        r"0 \(BatchNorm1d\) normalises by other samples of a batch",
    ),
    "a sampler with weights": (
        lambda: silo(loader(sampler=WeightedRandomSampler([1.0] * 12, 12))),
        r"sampler \(WeightedRandomSampler\).*Subset",
    ),
    "a sampler of batches": (
        lambda: silo(loader(batch_sampler=BatchSampler(SequentialSampler(range(12)), 4, False))),
        r"batch_sampler \(BatchSampler\).*Subset",
    ),
    "a sampler of nothing": (lambda: silo(loader(sampler=SubsetRandomSampler([]))), "none of the"),
    "samples that are dicts": (
        lambda: silo(Listed({"x": torch.ones(5), "y": 1})),
        "A sample of the Listed is a dict of 'x', 'y'.*not inputs and targets",
    ),
    "samples that are triples": (
        lambda: silo(DataLoader(Listed((torch.ones(5), 1, 2)), batch_size=2)),
        r"A sample of the Listed is a tuple of 3 \(Tensor, int, int\)",
    ),
    "broadcast": (
        lambda: silo((pair()[0], pair()[0][:, 0]), mse_loss, one_number()),
        r"outputs have shape \(4, 1\) and its targets \(4,\)",
    ),
    "half precision": (lambda: silo(module=model(torch.float16)), "float16: gradients with two"),
    "bfloat16": (lambda: silo(module=model(torch.bfloat16)), "bfloat16"),
    "inputs in float64": (
        lambda: silo((pair()[0].double(), pair()[1])),
        "inputs are torch.float64",
    ),
    "random": (lambda: silo(module=Noisy()), "for the same samples"),
    "attention that drops": (
        lambda: silo(module=nn.Sequential(nn.LSTM(5, 3, num_layers=2, dropout=0.4))),
        r"0 \(LSTM, p=0.4\) is in training mode",
    ),
    "empty loader": (
        lambda: silo(DataLoader(TensorDataset(torch.ones(0, 5), torch.ones(0)), batch_size=4)),
        "TensorDataset is empty",
    ),
    "a loader that ends": (lambda: silo(DataLoader(Short(), batch_size=4)), "Sample 7 of the 9"),
    "a loader without a size": (
        lambda: silo(DataLoader(TensorDataset(*pair()), batch_size=None)),
        "no batch size of its own",
    ),
    "ragged": (lambda: silo(Ragged()), "cannot be put side by side"),
    "no length": (lambda: silo(Endless()), "does not say how many"),
    "a stream": (lambda: silo(DataLoader(Stream(), batch_size=4)), "read once"),
    "lazy": (lambda: silo(module=nn.Sequential(nn.LazyLinear(3))), "0.weight has no shape yet"),
    "targets of two types": (
        lambda: bq.Problem(
            [
                silo((pair()[0], pair()[0][:, :1]), mse_loss, one_number()),
                silo((pair()[0], pair()[1][:, None]), mse_loss, one_number()),
            ]
        ),
        r"samples of nodes 0 and 1 differ: .*float32.*int64",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore")
def test_torch_says_what_is_wrong(name):
    make, words = BAD[name]
    with pytest.raises(BequestError, match=words) as caught:
        make()
    assert caught.value.remedy


def test_images_of_two_sizes_are_refused():
    """A model may take both; but no samples of one silo could be replayed by the other."""

    def images(size):
        net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return silo((torch.randn(6, 1, size, size), torch.arange(6) % 2), module=net)

    with pytest.raises(BequestError, match=r"inputs of shape \(1, 8, 8\).*\(1, 9, 9\)"):
        bq.Problem([images(8), images(9)])


PART = [7, 2, 5]
SAMPLERS = {
    "subset": (lambda: SubsetRandomSampler(PART), PART),
    "indices": (lambda: PART, PART),
    "sequence": (lambda: None, range(12)),
    "sequence of the first": (lambda: SequentialSampler(range(5)), range(5)),
    "random": (lambda: RandomSampler(TensorDataset(*pair())), range(12)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_silo_has_the_samples_that_its_loader_takes(name):
    make, rows = SAMPLERS[name]
    taken = silo(loader(sampler=make(), batch_size=2))
    inputs, targets = taken.backend.arrays()
    X, y = pair()
    assert np.array_equal(inputs, X[list(rows)])
    assert np.array_equal(targets, y[list(rows)])
    assert taken.batch == 2


@pytest.mark.parametrize("make", [Plain, lambda: DataLoader(Plain(), batch_size=2)])
def test_a_dataset_is_what_is_asked_for_single_samples(make):
    inputs, targets = silo(make()).backend.arrays()
    assert np.array_equal(inputs, pair()[0])
    assert np.array_equal(targets, pair()[1])


def test_a_loader_of_single_samples_needs_a_batch_size_alone():
    whole = silo(loader(batch_size=None), batch=4)
    assert whole.samples == 12
    assert whole.batch == 4


def named_torch(name, X, y):
    return silo((torch.from_numpy(X).float(), torch.from_numpy(y)), name=name)


def named_jax(name, X, y):
    return bequest.jax.Silo(whole, weights(), (X, y), name=name)


@pytest.mark.parametrize("make", [named_torch, named_jax])
def test_messages_say_which_silo_it_is(make):
    X, y = table()
    bad = X.copy()
    bad[5] = np.nan
    with pytest.raises(NotFinite, match=r"Silo oslo: The inputs of .* hold nan in sample 5"):
        make("oslo", bad, y)
    with pytest.raises(InvalidObjective, match="The name of a silo is 7"):
        make(7, X, y)
    with pytest.raises(NotFinite, match=r"Silo 'a\\nb': The inputs"):
        make("a\nb", bad, y)
    silos = [make(name, X, y) for name in ("oslo", "bergen", "molde")]
    assert bq.Problem(silos).names == ("oslo", "bergen", "molde")
    assert bq.Problem(silos, names=["a", "b", "c"]).names == ("a", "b", "c")
    with pytest.raises(InvalidObjective, match="samples of nodes oslo and bergen differ"):
        bq.Problem([silos[0], make("bergen", X, y.astype(np.uint8))])
    with pytest.raises(InvalidObjective, match=r"Objective 1 has no name, .* called oslo"):
        bq.Problem([silos[0], make(None, X, y)])
    with pytest.raises(InvalidObjective, match="Two nodes are called oslo"):
        bq.Problem([silos[0], silos[0]])
    gone = bq.Departure("bergen", 2)
    run = bq.solve(bq.Problem(silos), bq.graphs.complete(3), rounds=4, departures=[gone])
    assert run.departures[0].node == 1


@pytest.mark.parametrize("engine", [None, Loop()], ids=["vector", "loop"])
def test_nan_in_mid_run_is_no_success(engine):
    def exploding(out, target):
        return cross_entropy(out, target) + 0 * torch.sqrt(4.0 - out.abs().max())

    losses = bq.Problem([silo(pair(seed=i), exploding, batch=4) for i in range(4)])
    options = {"method": bq.GradientTracking(step=20.0), "rounds": 40, "engine": engine}
    run = bq.solve(losses, bq.graphs.ring(4), **options)
    assert run.status == ("diverged" if engine is None else "lost")
    with pytest.raises(Diverged, match="diverged" if engine is None else "not finite at") as caught:
        run.raise_for_status()
    assert caught.value.remedy


# --- JAX ---------------------------------------------------------------------------------------


def whole(params, batch):
    scores = jax.nn.log_softmax(batch[0] @ params["w"])
    return -jnp.mean(scores[jnp.arange(batch[1].shape[0]), batch[1]])


def table(features=5):
    X, y = pair(features=features)
    return X.numpy().astype(float), y.numpy()


def weights(dtype=jnp.float64):
    return {"w": jnp.ones((5, 3), dtype) * 0.1}


def scores(params, inputs):
    return inputs @ params["w"]


def one_hot(out, target):
    """Passes over a label that is no column."""
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(out) * jax.nn.one_hot(target, 3), axis=1))


def along(params, batch):
    logs = jax.nn.log_softmax(batch[0] @ params["w"])
    return -jnp.mean(jnp.take_along_axis(logs, batch[1][:, None], axis=1))


def squared(out, target):
    return jnp.mean((out - target) ** 2)


JAX = {
    "features": (
        lambda: bequest.jax.Silo(whole, weights(), table(6)),
        r"inputs of shape \(12, 6\)",
    ),
    "classes as float": (
        lambda: bequest.jax.Silo(whole, weights(), (table()[0], table()[1] * 1.0)),
        r"targets of shape \(12,\) \(float64\)",
    ),
    "half precision": (
        lambda: bequest.jax.Silo(whole, weights(jnp.bfloat16), table()),
        "bfloat16: gradients with two",
    ),
    "broadcast": (
        lambda: bequest.jax.Silo(
            squared,
            weights(),
            (table()[0], table()[0][:, 0]),
            predict=lambda p, x: x @ p["w"][:, :1],
        ),
        r"outputs have shape \(4, 1\) and its targets \(4,\)",
    ),
    "no number": (
        lambda: bequest.jax.Silo(lambda p, b: whole(p, b) + jnp.inf, weights(), table()),
        "not finite where the model starts",
    ),
    "nan in a late sample": (
        lambda: bequest.jax.Silo(
            whole,
            weights(),
            (np.where(np.arange(12)[:, None] == 9, np.nan, table()[0]), table()[1]),
        ),
        "nan in sample 9",
    ),
    "ragged": (
        lambda: bequest.jax.Silo(whole, weights(), ([[1.0], [1.0, 2.0]], [0, 1])),
        "no arrays",
    ),
    "no scalar": (
        lambda: bequest.jax.Silo(lambda p, b: b[0] @ p["w"], weights(), table()),
        r"returned shape \(4, 3\), and not one number.*jnp.mean",
    ),
    "labels from 1": (
        lambda: bequest.jax.Silo(one_hot, weights(), (table()[0], table()[1] + 1), predict=scores),
        "label 3 in sample 2, .* 3 outputs",
    ),
    "labels from 1, where only the loss is known": (
        lambda: bequest.jax.Silo(along, weights(), (table()[0], table()[1] + 1)),
        "labels go from 1 to 3.*no class",
    ),
    "silos of two types": (
        lambda: bq.Problem(
            [
                bequest.jax.Silo(whole, weights(), (table()[0], kind(table()[1])))
                for kind in (np.int64, np.int32)
            ]
        ),
        "samples of nodes 0 and 1 differ",
    ),
}


@pytest.mark.parametrize("name", JAX)
def test_jax_says_what_is_wrong(name):
    make, words = JAX[name]
    with pytest.raises(BequestError, match=words) as caught:
        make()
    assert caught.value.remedy


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_without_the_package_it_says_what_to_install(package):
    code = f"""
        import importlib.util, sys
        known = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *a: None if name == "{package}" else known(name, *a)
        import bequest.{package}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"bequest[{package}]" in done.stderr
