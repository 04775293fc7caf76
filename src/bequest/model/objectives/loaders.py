"""What a dataset or a loader holds, read once and put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bequest.errors import InvalidObjective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Samplers(NamedTuple):
    """The samplers of a framework of which it is known what they take.

    Attributes:
        whole: those that take all samples of what they were made with.
        part: the one that takes the samples at its ``indices``.
    """

    whole: tuple[type, ...]
    part: type


def read_loader(
    loader: Any,  # noqa: ANN401
    batch: int | None,
    samplers: Samplers,
    collate: Callable[[list[Any]], Any],
) -> tuple[Any, int]:
    """Return the samples that a DataLoader takes, side by side, and how many a round takes.

    Args:
        loader: a DataLoader, which is asked what it was made with, and for no batch.
        batch: how many samples a round takes; None for as many as it does.
        samplers: of its framework.
        collate: what puts samples side by side, where the loader does not.

    Raises:
        InvalidObjective: it says too little, or its sampler decides in a way of its own.
    """
    rows = _chosen_rows(loader, samplers)
    size = loader.batch_size if batch is None else batch
    if size is None:
        raise InvalidObjective(
            "The loader has no batch size of its own.",
            remedy="Say how many samples a round takes: batch=32.",
        )
    if loader.batch_sampler is not None:
        return read_all(loader.dataset, loader.collate_fn, rows), size

    def one_by_one(samples: list[Any]) -> Any:  # noqa: ANN401
        return collate([loader.collate_fn(sample) for sample in samples])

    return read_all(loader.dataset, one_by_one, rows), size


def _chosen_rows(loader: Any, samplers: Samplers) -> Sequence[int] | None:  # noqa: ANN401
    """Return which samples of its dataset a loader takes; None for all of them."""
    sampler: Any = loader.sampler
    odd, is_part = "", type(sampler) is samplers.part
    if loader.batch_size is None and loader.batch_sampler is not None:
        odd = f"batch_sampler ({type(loader.batch_sampler).__name__})"
    elif type(sampler) in samplers.whole:
        source = sampler.data_source
        return None if source is loader.dataset else range(len(source))
    elif not is_part and not isinstance(sampler, list | tuple | range):
        odd = f"sampler ({type(sampler).__name__})"
    if odd:
        raise InvalidObjective(
            f"The loader has a {odd}, which would not be asked: the key of a round chooses its "
            "samples, each as often as any other.",
            remedy="Pass a dataset with this silo's samples, such as torch.utils.data.Subset("
            "dataset, indices), and batch=32.",
        )
    taken = sampler.indices if is_part else sampler
    rows = [int(k) for k in taken]
    if not rows:
        raise InvalidObjective(
            "The loader's sampler takes none of the samples.", remedy="Pass at least one index."
        )
    return rows


def is_dataset(data: object) -> bool:
    """Return whether that is asked for a sample at a time: no array, and no pair of arrays."""
    whole = isinstance(data, tuple | list | Mapping | str | bytes)
    table = hasattr(data, "dtype") or hasattr(data, "iloc")
    return hasattr(data, "__getitem__") and not whole and not table


def read_all(
    dataset: Any,  # noqa: ANN401
    collate: Callable[[list[Any]], Any],
    rows: Sequence[int] | None = None,
) -> Any:  # noqa: ANN401
    """Return these samples of a dataset, or all, side by side: inputs and targets.

    Raises:
        InvalidObjective: they cannot be read, or are no pairs.
    """
    kind = type(dataset).__name__
    try:
        count = len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise InvalidObjective(
            f"A {kind} does not say how many samples it has.",
            remedy="Give it __len__, or pass tensors.",
        ) from error
    if not count:
        raise InvalidObjective(f"The {kind} is empty.", remedy="Pass at least one sample.")
    samples = []
    for k in range(count) if rows is None else rows:
        try:
            samples.append(dataset[k])
        except Exception as error:
            raise InvalidObjective(
                f"Sample {k} of the {count} that a {kind} says it has cannot be read: "
                f"{type(error).__name__}: {error}",
                remedy="Let __len__ say how many there are, and __getitem__ return each of them.",
            ) from error
    try:
        found = collate(samples)
    except Exception as error:
        said = str(error).partition("\n")[0][:200]
        raise InvalidObjective(
            f"The samples of a {kind} cannot be put side by side: {type(error).__name__}: {said}",
            remedy="Give them one shape and one type, for instance by padding or cropping.",
        ) from error
    pair = isinstance(found, tuple | list) and len(found) == 2
    if not pair or not all(hasattr(part, "shape") for part in found):
        raise InvalidObjective(
            f"A sample of the {kind} is {_described(samples[0])}. Side by side they are "
            f"{_described(found)}, and not inputs and targets.",
            remedy="Let __getitem__ return (input, target), or pass a DataLoader whose collate_fn "
            "makes (inputs, targets) of a list of samples.",
        )
    return found


def _described(value: object) -> str:
    """Return what that is: its type, and what it holds."""
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"a {kind} of {', '.join(map(repr, list(value)[:6]))}"
    if isinstance(value, tuple | list):
        parts = ", ".join(type(part).__name__ for part in value[:6])
        return f"a {kind} of {len(value)} ({parts}{', ...' if len(value) > 6 else ''})"
    return f"a {kind}"
