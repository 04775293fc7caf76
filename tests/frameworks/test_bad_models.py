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
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import bequest as bq
import bequest.jax
import bequest.torch
from bequest.engines import Loop
from bequest.errors import BequestError, Diverged

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
    "class beyond the outputs": (lambda: silo(late_class()), "Target 7 is out of bounds"),
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
        "fails on inputs",
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
