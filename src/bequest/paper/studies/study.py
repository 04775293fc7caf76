"""What a study is, and how studies are carried out."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bequest.errors import InvalidResult
from bequest.extras import Extra
from bequest.paper import store

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a case: arrays by name, and facts as plain data."""

    arrays: Mapping[str, Any]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One independent piece of a study: its name, and the arguments of ``measure``."""

    name: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A declaration: cases, and how one of them is measured.

    ``measure`` is a plain function of the case's parameters, all randomness seeded by them, so
    that any process on any machine finds the same numbers. ``needs`` names the extras that
    ``measure`` uses.
    """

    name: str
    cases: tuple[Case, ...]
    measure: Callable[..., Findings]
    needs: tuple[Extra, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """How many results were computed, and how many were there already."""

    computed: int
    kept: int


def seeded(seeds: int, **params: Any) -> Iterator[Case]:  # noqa: ANN401 - whatever measure takes
    """Yield one case per seed with otherwise equal parameters."""
    prefix = "".join(f"{name}-{value}_" for name, value in params.items())
    for seed in range(seeds):
        yield Case(f"{prefix}seed-{seed:02d}", {**params, "seed": seed})


def carry_out(
    studies: Sequence[Study],
    folder: Path,
    *,
    again: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Compute every case that has no result yet, spread over the cores.

    Args:
        studies: what to compute.
        folder: where the results are kept.
        again: compute every case anew, also those that have a result.
        workers: number of processes; one per core by default.
        progress: called with (done, total, name of the study) after every case.

    Raises:
        InvalidResult: an existing result cannot be used; nothing was overwritten.
    """
    wanted = [(study, case) for study in studies for case in study.cases]
    missing = wanted if again else [pair for pair in wanted if not _is_there(folder, *pair)]
    _sweep(folder)
    total, done = len(missing), 0
    if missing:
        cores = workers or len(os.sched_getaffinity(0))
        # Fresh interpreters: no state, and no threads, is inherited by accident.
        fresh = multiprocessing.get_context("spawn")
        with (
            _one_thread_each(),
            ProcessPoolExecutor(min(cores, total), fresh, _ignore_interrupts) as pool,
        ):
            jobs = [pool.submit(_compute, folder, study, case) for study, case in missing]
            try:
                for job in as_completed(jobs):
                    name = job.result()
                    done += 1
                    if progress is not None:
                        progress(done, total, name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in multiprocessing.active_children():
                    worker.terminate()
                    worker.join()
                _sweep(folder)
                raise
    return Tally(computed=done, kept=len(wanted) - total)


def _compute(folder: Path, study: Study, case: Case) -> str:
    found = study.measure(**case.params)
    store.write(folder, store.Result(study.name, case.name, case.params, found.arrays, found.facts))
    return study.name


def _is_there(folder: Path, study: Study, case: Case) -> bool:
    path = store.path_of(folder, study.name, case.name)
    if not path.exists():
        return False
    result = store.read(path)
    if dict(result.params) != dict(case.params):
        raise InvalidResult(
            f"{path} holds the result of other parameters than {case.name} has now.",
            remedy="Compute it again with --again, or choose another folder with --output.",
        )
    return True


def _sweep(folder: Path) -> None:
    """Remove the drafts of results whose computation was killed while they were being written."""
    for draft in (folder / "results").glob("*/.*.part"):
        draft.unlink(missing_ok=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _one_thread_each:  # noqa: N801 - used like a function
    """One BLAS thread per worker: two workers with two threads each would fight over two cores."""

    _NAMES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._NAMES}
        os.environ.update(dict.fromkeys(self._NAMES, "1"))

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
