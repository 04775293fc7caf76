"""How the death of a process is heard of."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ray.exceptions import ActorUnavailableError, RayActorError, RayError

# After so many seconds a process whose office is gone ends by itself.
_MOMENT = 1.0
# What Ray says to everybody, and helps nobody here.
_BORING = ("The actor is dead because ", "Worker exit type: SYSTEM_ERROR ", "Worker exit detail: ")
_ADVICE = " Some common causes include"


async def death_of(actor: Any) -> str:  # noqa: ANN401
    """Wait until an actor is dead; return why.

    One call that never returns is under way for as long as it lives. That it cannot be reached is a
    suspicion, and asked again; that it has died is the verdict.
    """
    while True:
        try:
            await actor.watch.options(max_task_retries=0).remote()
        except ActorUnavailableError:
            await asyncio.sleep(0.1)
        except RayActorError as error:
            return _cause(error)
        except RayError:
            await asyncio.sleep(0.1)


async def end_with(office: Any) -> None:  # noqa: ANN401
    """End this process when the office is gone: nobody would ever hear of it again."""
    await death_of(office)
    # Where a run ends in good order it is about to be killed, too; Ray would tell the user of a
    # process that ends by itself.
    await asyncio.sleep(_MOMENT)
    os._exit(1)


def _cause(error: Exception) -> str:
    """Return the telling part of what Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[-1] if lines else type(error).__name__
    for boring in _BORING:
        told = told.replace(boring, "")
    return told.split(_ADVICE)[0]
