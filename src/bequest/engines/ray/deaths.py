"""How the death of a process is heard of."""

from __future__ import annotations

import asyncio
from typing import Any

from ray.exceptions import ActorUnavailableError, RayActorError, RayError

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


def _cause(error: Exception) -> str:
    """Return the telling part of what Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[-1] if lines else type(error).__name__
    for boring in _BORING:
        told = told.replace(boring, "")
    return told.split(_ADVICE)[0]
