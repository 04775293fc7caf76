"""Digests of models: they see the loss, the code and what it reads, not what use has changed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import huber_loss, mse_loss

import bequest as bq
import bequest.jax
import bequest.torch
from bequest.engines.fingerprint import differences, fingerprint
from bequest.model.content import digest, look_into
from bequest.solver import prepare

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
Y = X @ np.array([[9.0], [-7.0], [5.0]])
INPUTS, TARGETS = torch.tensor(X), torch.tensor(Y)


class Inner(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.layer, self.k = nn.Linear(3, 3), k

    def forward(self, x):
        return torch.tanh(self.layer(x)) * self.k


class Recurrent(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.layer, self.k = nn.GRU(3, 1, batch_first=True), k

    def forward(self, x):
        return self.k * self.layer(x[:, None])[0][:, 0]


def clamped(k):
    class Clamped(nn.Linear):
        def forward(self, x):
            return super().forward(x).clamp(-k, k)

    return Clamped(3, 1)


def constant(k):
    space = {"nn": nn, "__name__": "mine"}
    code = (
        f"class Mine(nn.Linear):\n def forward(self, x): return super().forward(x).clamp(-{k}, {k})"
    )
    exec(code, space)  # noqa: S102
    return space["Mine"](3, 1)


def hooked(k):
    module = nn.Linear(3, 1)
    module.register_forward_hook(lambda _module, _inputs, out: out * k)
    return module


def begun(k):
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.bias.fill_(k)
    return module


def huber(k):
    return lambda out, target: huber_loss(out, target, delta=k)


def silo(module, loss=mse_loss):
    module = module.double()
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if "weight" in name:
                p.copy_(torch.tensor(rng.standard_normal(p.shape)))
            elif not isinstance(module, nn.Linear):
                p.zero_()
    return bequest.torch.Silo(module, loss, (INPUTS, TARGETS), curvature=(0.0, 9.0))


def start():
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.bias.zero_()
    return module


TORCH = {
    "a loss": lambda k: silo(start(), huber(k)),
    "a loss that is a module": lambda k: silo(start(), nn.HuberLoss(delta=k)),
    "an attribute of a part": lambda k: silo(nn.Sequential(Inner(k), nn.Linear(3, 1))),
    "an attribute of a part of torch": lambda k: silo(nn.Sequential(nn.Linear(3, 1), nn.ELU(k))),
    "a recurrent layer": lambda k: silo(Recurrent(k)),
    "what forward closes over": lambda k: silo(_zeroed(clamped(k))),
    "a constant in forward": lambda k: silo(_zeroed(constant(k))),
    "a hook": lambda k: silo(_zeroed(hooked(k))),
    "where it begins": lambda k: silo(begun(k)),
}


def _zeroed(module):
    with torch.no_grad():
        module.bias.zero_()
    return module


def huber_of_jax(k):
    def loss(out, target):
        r = jnp.abs(out - target)
        return jnp.mean(jnp.where(r < k, r * r / 2, k * (r - k / 2)))

    return loss


def jax_silo(k, wrap, predict=None, at=0.0):
    def whole(params, batch):
        return huber_of_jax(k)(batch[0] @ params, batch[1])

    loss = wrap(whole if predict is None else huber_of_jax(k))
    begin = jnp.full((3, 1), at)
    return bequest.jax.Silo(loss, begin, (X, Y), predict=predict, curvature=(0.0, 9.0))


def clipped(k):
    return lambda params, inputs: jnp.clip(inputs @ params, -k, k)


JAX = {
    "a loss of jax": lambda k: jax_silo(k, lambda f: f),
    "a compiled loss": lambda k: jax_silo(k, jax.jit),
    "a loss that is computed again": lambda k: jax_silo(k, jax.checkpoint),
    "a loss of outputs": lambda k: jax_silo(k, lambda f: f, predict=clipped(9.0)),
    "what predicts": lambda k: jax_silo(1.0, lambda f: f, predict=clipped(k)),
    "where jax begins": lambda k: jax_silo(1.0, lambda f: f, at=k),
}
SILOS = TORCH | JAX


@pytest.mark.parametrize("name", SILOS)
def test_what_a_model_computes_is_noticed(name):
    silo, other, again = (SILOS[name](k) for k in (1.0, 3.0, 1.0))
    before = look_into(silo)
    assert before.digits != digest(other)
    assert before == look_into(again)
    assert not before.opaque
    silo.value(np.ones(silo.dim))
    silo.gradient(np.ones(silo.dim))
    if name in TORCH:  # this leaves more behind than a gradient does
        silo.hvp(np.ones(silo.dim), np.ones(silo.dim))
    assert look_into(silo) == before  # as it was before it was used


@pytest.mark.parametrize("make", [TORCH["a loss"], JAX["a loss of jax"]])
def test_a_run_with_another_loss_is_another_run(make):
    alone, method = bq.Graph([], n=1), bq.GradientTracking(0.05)
    plans = [
        prepare(bq.Problem([make(k)]), alone, rounds=5, method=method) for k in (1.0, 3.0, 1.0)
    ]
    one, other, same = (fingerprint(plan, bq.engines.Vector()) for plan in plans)
    assert differences(one, other) == "the loss of node 0"
    assert differences(one, same) == ""


def sums_of_torch(k):
    return torch.func.grad_and_value(lambda x: k * (x**2).sum())


@pytest.mark.parametrize(
    "make",
    [
        lambda k: jax.value_and_grad(lambda x: k * jnp.sum(jnp.asarray(x) ** 2)),
        lambda k: jax.jit(jax.grad(lambda x: k * jnp.sum(jnp.asarray(x) ** 2))),
        lambda k: jax.vmap(lambda x: k * x),
        lambda k: jax.checkpoint(lambda x: k * x),
        lambda k: torch.no_grad()(lambda x: k * x),
        sums_of_torch,
    ],
    ids=["value_and_grad", "jit of grad", "vmap", "checkpoint", "no_grad", "grad_and_value"],
)
def test_what_frameworks_make_of_a_function_is_told_apart(make):
    one = make(1.0)
    before = look_into(one)
    assert before.digits != digest(make(2.0))
    assert before == look_into(make(1.0))
    one(torch.ones(2) if make is sums_of_torch else np.ones(2))
    assert look_into(one) == before
    assert not before.opaque


def test_compiled_modules_are_known_by_what_they_are_made_of():
    found = [
        look_into(silo(torch.compile(nn.Sequential(nn.Linear(3, 1), nn.ELU(k)), backend="eager")))
        for k in (1.0, 1.0, 2.0)
    ]
    assert found[0] == found[1] != found[2]
    scripted = [
        look_into(silo(torch.jit.script(nn.Sequential(nn.Linear(3, 1), nn.ELU(k)))))
        for k in (1.0, 1.0, 2.0)
    ]
    assert scripted[0] == scripted[1] != scripted[2]
