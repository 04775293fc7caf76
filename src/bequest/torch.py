"""Models of torch as losses of nodes: ``bequest.torch.Silo``.

    silo = bequest.torch.Silo(model, torch.nn.functional.cross_entropy, (X, y), l2=1e-4, batch=16)

The module and its data stay the user's: a silo works on a copy of the module. It needs the extra
``torch``.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

from bequest import extras
from bequest.errors import InvalidObjective
from bequest.model.objectives.loaders import Samplers, is_dataset, read_all, read_loader
from bequest.model.objectives.model_checks import (
    check_backend,
    check_pair,
    check_precision,
    check_scalar,
    speaking_of,
)
from bequest.model.objectives.module_parts import module_parts
from bequest.model.objectives.network import Network

extras.need("torch", what="bequest.torch")

import numpy as np  # noqa: E402 - after the check
import torch  # noqa: E402
from torch.func import functional_call, grad, jvp, vjp, vmap  # noqa: E402
from torch.nn.modules.batchnorm import _BatchNorm  # noqa: E402
from torch.nn.modules.dropout import _DropoutNd  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.core.curvature import Curvature

    Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

__all__ = ["Silo"]

# All samples are taken in pieces of so many, so that memory does not grow with them.
_PIECE = 4096
# So many samples show whether a loss tells that of each of them, to this relative accuracy.
_FEW, _SAME = 8, 1e-4


class Silo(Network):
    """The loss of a torch module on one node's samples.

    Args:
        model: the module, the same architecture on every node; a copy of it is kept.
        loss: ``loss(outputs, targets)``, the mean over a batch, as in torch.nn.functional.
        data: a pair of tensors (inputs, targets), a dataset, or a DataLoader, whose batch size and
            dataset are taken, or what a SubsetRandomSampler has the indices of: the key of a round
            chooses its samples, not the loader.
        l2: adds l2/2 times the squared length of the parameters.
        batch: how many samples a round takes; None for all, or as many as the loader does.
        seed: of that choice.
        full_every: take all samples every so many rounds, against the noise of the others.
        curvature: the range of the loss's curvature, if it is known; a may be below zero.
        name: what the node is called, in what is said about it and in the problem.

    ``run.model`` is the state_dict that the survivors agree on.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        data: Any,  # noqa: ANN401 - tensors, a dataset or a loader
        *,
        l2: float = 0.0,
        batch: int | None = None,
        seed: int = 0,
        full_every: int | None = None,
        curvature: Curvature | tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        with speaking_of(name):
            backend, loaded = _backend(model, loss, data, batch)
            super().__init__(
                backend,
                l2=l2,
                batch=loaded,
                seed=seed,
                full_every=full_every,
                curvature=curvature,
                name=name,
            )


def _backend(
    model: torch.nn.Module,
    loss: Loss,
    data: Any,  # noqa: ANN401 - tensors, a dataset or a loader
    batch: int | None,
) -> tuple[_Torch, int | None]:
    """Return the model on these samples, once all is checked, and how many a round takes."""
    _check_module(model)
    if not callable(loss):
        raise InvalidObjective(
            f"The loss is a {type(loss).__name__}.",
            remedy="Pass a function of (outputs, targets), such as "
            "torch.nn.functional.cross_entropy.",
        )
    inputs, targets, loaded = _tensors(data, batch)
    _check_samples(model, inputs, targets)
    backend = _Torch(deepcopy(model).eval(), loss, inputs, targets, None)
    check_backend(backend, f"a {type(model).__name__}")
    return backend, loaded


class _Torch:
    """A module, a loss and samples; the parameters lie in one flat tensor."""

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Loss,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor | None,
    ) -> None:
        self.module, self.loss, self.weights = module, loss, weights
        self.inputs, self.targets = inputs, targets
        # What says the loss of every sample, where these do not count alike.
        self._each = None if weights is None else _each(module, loss, inputs[:_FEW], targets[:_FEW])
        # As the module came: evaluating it changes its parameters.
        self._start = torch.cat([p.detach().reshape(-1) for p in module.parameters()])

    def __getstate__(self) -> dict[str, Any]:
        again = (
            "_flat",
            "_parameters",
            "_each",
        )  # what is made of the module when it is first needed
        return {name: part for name, part in vars(self).items() if name not in again}

    # --- parameters -----------------------------------------------------------------------

    @cached_property
    def _parameters(self) -> list[torch.nn.Parameter]:
        return list(self.module.parameters())

    @cached_property
    def _flat(self) -> torch.Tensor:
        """All parameters in one tensor, which the module's are views of."""
        parameters = self._parameters
        flat = torch.cat([p.detach().reshape(-1) for p in parameters])
        _point(flat, parameters)
        return flat

    def _set(self, x: Vector) -> list[torch.nn.Parameter]:
        with torch.no_grad():
            if not x.flags.writeable:  # torch would warn, though it only reads
                x = x.copy()
            self._flat.copy_(torch.from_numpy(np.ascontiguousarray(x)))
        return self._parameters

    @cached_property  # every round asks, and a module looks for its parameters each time
    def dim(self) -> int:
        return sum(p.numel() for p in self.module.parameters())

    @property
    def samples(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def precision(self) -> float:
        return float(torch.finfo(self._dtype).eps)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    @cached_property
    def architecture(self) -> str:
        shapes = [(name, tuple(p.shape)) for name, p in self.module.named_parameters()]
        loss = getattr(self.loss, "__qualname__", type(self.loss).__name__)
        words = repr((shapes, str(self.module), loss))
        return f"{type(self.module).__name__} {sha256(words.encode()).hexdigest()[:16]}"[-64:]

    def start(self) -> Vector:
        found: Vector = self._start.cpu().numpy().astype(float)
        return found

    def model(self, x: Vector) -> dict[str, torch.Tensor]:
        self._set(x)
        return {name: part.detach().clone() for name, part in self.module.state_dict().items()}

    # --- evaluation -----------------------------------------------------------------------

    def _batches(self, rows: Indices | None) -> list[tuple[torch.Tensor, torch.Tensor, Any]]:
        """Return inputs, targets and weights (or their share in a mean) of some samples."""
        if rows is not None:
            chosen = torch.from_numpy(np.ascontiguousarray(rows)).to(self.inputs.device)
            return [
                (self.inputs.index_select(0, chosen), self.targets.index_select(0, chosen), 1.0)
            ]
        if self.weights is None and self.samples <= _PIECE:
            return [(self.inputs, self.targets, 1.0)]
        pieces = []
        for begin in range(0, self.samples, _PIECE):
            part = slice(begin, begin + _PIECE)
            share: Any = self.inputs[part].shape[0] / self.samples
            if self.weights is not None:
                share = self.weights[part]
            pieces.append((self.inputs[part], self.targets[part], share))
        return pieces

    def _mean(self, outputs: torch.Tensor, targets: torch.Tensor, share: Any) -> torch.Tensor:  # noqa: ANN401
        """Return the loss of a batch times its share, or with a weight per sample."""
        if not isinstance(share, torch.Tensor):
            found = self.loss(outputs, targets)
            check_scalar(found.shape)
            return found if share == 1.0 else found * share
        assert self._each is not None  # noqa: S101 - there are weights
        return (self._each(outputs, targets) * share).sum()

    def value(self, x: Vector, rows: Indices | None) -> float:
        self._set(x)
        with torch.no_grad():
            return sum(
                float(self._mean(self.module(inputs), targets, share))
                for inputs, targets, share in self._batches(rows)
            )

    def gradient(self, x: Vector, rows: Indices | None) -> Vector:
        parameters = self._set(x)
        total: Vector | None = None
        for inputs, targets, share in self._batches(rows):
            loss = self._mean(self.module(inputs), targets, share)
            parts = torch.autograd.grad(loss, parameters, allow_unused=True)
            found = self._flattened(parts)
            total = found if total is None else total + found
        assert total is not None  # noqa: S101 - there are samples
        return total

    def _flattened(self, parts: Any) -> Vector:  # noqa: ANN401
        """Return gradients as one float64 vector; a parameter that plays no part has none."""
        found = np.empty(self._flat.numel())
        begin = 0
        for part, p in zip(parts, self._parameters, strict=True):
            end = begin + p.numel()
            # Converted where it belongs: what is moved twice costs as much as a small batch.
            found[begin:end].reshape(p.shape)[...] = 0.0 if part is None else part.cpu().numpy()
            begin = end
        return found

    def _dictionary(self, vector: Vector) -> dict[str, torch.Tensor]:
        flat = torch.from_numpy(np.array(vector, dtype=np.float64)).to(self._flat)
        found, begin = {}, 0
        for name, p in self.module.named_parameters():
            found[name] = flat[begin : begin + p.numel()].view_as(p)
            begin += p.numel()
        return found

    def _vector(self, parts: dict[str, torch.Tensor]) -> Vector:
        named = [parts[name].detach().reshape(-1) for name, _ in self.module.named_parameters()]
        found: Vector = torch.cat(named).cpu().numpy().astype(float)
        return found

    def hessian_product(self, x: Vector, v: Vector) -> Vector:
        """Reverse over reverse: the Hessian is symmetric."""
        point, along = self._dictionary(x), self._dictionary(v)
        total = np.zeros(self.dim)
        for inputs, targets, share in self._batches(None):

            def loss(parameters: Any, i: Any = inputs, t: Any = targets, s: Any = share) -> Any:  # noqa: ANN401
                return self._mean(functional_call(self.module, parameters, (i,)), t, s)

            total += self._vector(vjp(grad(loss), point)[1](along)[0])
        return total

    def output_shape(self, x: Vector, rows: Indices) -> tuple[int, ...] | None:
        self._set(x)
        with torch.no_grad():
            outputs = self.module(self._batches(rows)[0][0])
        return tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else None

    def gauss_product(self, x: Vector, v: Vector) -> Vector:
        """J' H J v, with H the Hessian of the loss in the model's outputs."""
        point, along = self._dictionary(x), self._dictionary(v)
        total = np.zeros(self.dim)
        for inputs, targets, share in self._batches(None):

            def outputs(parameters: Any, i: Any = inputs) -> Any:  # noqa: ANN401
                return functional_call(self.module, parameters, (i,))

            def outer(out: Any, t: Any = targets, s: Any = share) -> Any:  # noqa: ANN401
                return self._mean(out, t, s)

            out, moved = jvp(outputs, (point,), (along,))
            bent = vjp(grad(outer), out)[1](moved)[0]  # it is symmetric
            total += self._vector(vjp(outputs, point)[1](bent)[0])
        return total

    # --- samples --------------------------------------------------------------------------

    def arrays(self) -> tuple[Tensor, Tensor]:
        inputs, targets = (part.detach().cpu().numpy() for part in (self.inputs, self.targets))
        return inputs, targets

    def on(self, points: Matrix, labels: Vector, weights: Vector) -> Self:
        like, kind = self.inputs, self.targets
        inputs = torch.from_numpy(np.array(points)).to(like).reshape(-1, *like.shape[1:])
        targets = torch.from_numpy(np.array(labels)).to(kind).reshape(-1, *kind.shape[1:])
        share = torch.from_numpy(np.array(weights)).to(device=like.device, dtype=self._dtype)
        other = type(self)(self.module, self.loss, inputs, targets, share)
        # One module has one set of parameters, and these lie in one tensor.
        vars(other)["_flat"] = self._flat
        return other

    def content(self) -> object:
        return self.architecture, self.arrays(), self.start(), self.loss, module_parts(self.module)


def _each(module: torch.nn.Module, loss: Loss, inputs: torch.Tensor, targets: torch.Tensor) -> Loss:
    """Return what says the loss of every sample: at once, as losses of torch do, or one by one.

    Tried on outputs in which no parameter plays a part, so that all nodes agree.
    """
    slow = partial(_singly, loss)
    each: Any = partial(loss, reduction="none")  # type: ignore[call-arg]
    if isinstance(loss, torch.nn.Module):
        each = deepcopy(loss)
        each.reduction = "none"
    with torch.no_grad():
        shape = module(inputs).shape
        outputs = torch.linspace(0.1, 0.9, shape.numel()).to(next(module.parameters()))
        given = outputs.reshape(shape), targets
        try:
            torch.testing.assert_close(each(*given), slow(*given), rtol=_SAME, atol=0.0)
        except Exception:  # noqa: BLE001 - a user's own loss may raise anything
            return slow
    return each  # type: ignore[no-any-return]


def _singly(loss: Loss, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss of every sample, each as a batch of its own."""
    return vmap(lambda o, t: loss(o[None], t[None]))(outputs, targets)


def _point(flat: torch.Tensor, parameters: list[torch.nn.Parameter]) -> None:
    """Make views of one tensor of all parameters."""
    begin = 0
    for p in parameters:
        p.data = flat[begin : begin + p.numel()].view_as(p)
        p.requires_grad_(True)
        begin += p.numel()


def _check_samples(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Refuse parameters and data that are not in one place, or of several types."""
    places = {str(p.device) for p in model.parameters()}
    places |= {str(inputs.device), str(targets.device)}
    if len(places) > 1 or "meta" in places:
        raise InvalidObjective(
            f"Parameters and data are on {', '.join(sorted(places))}.",
            remedy="Move both to one device: model.to(device), and the tensors too.",
        )
    kind = next(model.parameters()).dtype
    if inputs.is_floating_point() and inputs.dtype != kind:
        raise InvalidObjective(
            f"The inputs are {inputs.dtype}, and the parameters {kind}.",
            remedy="Convert one of them: inputs.float() and model.float(), or .double().",
        )


def _check_module(model: Any) -> None:  # noqa: ANN401 - whatever a user passes
    """Refuse what is no module, or has state beside its parameters."""
    if isinstance(model, type) or not isinstance(model, torch.nn.Module):
        raise InvalidObjective(
            f"The model is a {type(model).__name__}.", remedy="Pass a torch.nn.Module, made."
        )
    parameters = list(model.parameters())
    for name, p in model.named_parameters():
        if isinstance(p, torch.nn.parameter.UninitializedParameter):
            raise InvalidObjective(
                f"{name} has no shape yet: its module is a lazy one.",
                remedy="Run one batch through the model first: model(inputs[:1]).",
            )
    check_precision({str(p.dtype) for p in parameters}, f"a {type(model).__name__}")
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    if frozen:
        raise InvalidObjective(
            f"{frozen[0]} is frozen (requires_grad is False), but nodes agree on all parameters.",
            remedy="Keep frozen parts out of the model, for instance by giving their outputs as "
            "inputs; or let them be trained.",
        )
    for name, part in model.named_modules():
        called = name or type(model).__name__
        if isinstance(part, _BatchNorm) or getattr(part, "track_running_stats", False):
            raise InvalidObjective(
                f"{called} ({type(part).__name__}) normalises by other samples of a batch, or by "
                "running statistics outside the model's parameters: nodes would not agree on them.",
                remedy="Use GroupNorm or LayerNorm, which look at one sample at a time.",
            )
        dropped = part.p if isinstance(part, _DropoutNd) else getattr(part, "dropout", 0.0)
        if isinstance(dropped, int | float) and dropped > 0 and model.training:
            raise InvalidObjective(
                f"{called} ({type(part).__name__}, p={dropped:g}) is in training mode: it would "
                "draw masks that no key chooses, and no replay could repeat.",
                remedy="Call model.eval() first, which turns it off, or take it out; l2 and "
                "minibatches regularise, too.",
            )
    buffers = [name for name, _ in model.named_buffers()]
    if buffers:
        raise InvalidObjective(
            f"The model has state outside its parameters: {', '.join(buffers[:3])}.",
            remedy="Make constants of them (plain attributes), or parameters.",
        )


def _tensors(data: Any, batch: int | None) -> tuple[torch.Tensor, torch.Tensor, int | None]:  # noqa: ANN401
    """Return inputs, targets, and how many samples a round takes."""
    from torch.utils import data as torch_data

    is_loader = isinstance(data, torch_data.DataLoader)
    source = data.dataset if is_loader else data
    if isinstance(source, torch_data.IterableDataset) or hasattr(source, "__next__"):
        raise InvalidObjective(
            f"The data are a {type(source).__name__}, which can be read once and not be asked for "
            "a sample again.",
            remedy="Pass tensors, or a dataset with __getitem__ and __len__: the key of a round "
            "chooses its samples.",
        )
    if is_loader:
        whole = torch_data.SequentialSampler, torch_data.RandomSampler
        samplers = Samplers(whole, torch_data.SubsetRandomSampler)
        data, batch = read_loader(data, batch, samplers, torch_data.default_collate)
    elif is_dataset(data):
        data = read_all(data, torch_data.default_collate)
    pair = isinstance(data, tuple | list) and len(data) == 2
    if not pair or not all(isinstance(part, torch.Tensor | np.ndarray) for part in data):
        raise InvalidObjective(
            f"The data are a {type(data).__name__}.",
            remedy="Pass (inputs, targets) as two tensors, a dataset of such pairs, or a "
            "DataLoader.",
        )
    inputs, targets = (torch.as_tensor(part).detach() for part in data)
    check_pair(tuple(inputs.shape), tuple(targets.shape))
    return inputs, targets, batch
