"""What a module of torch is made of, beside the parameters that nodes agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# What changes as a module is evaluated: its parameters, which recurrent layers list once more, its
# parts, which count by themselves, and the program that ``module.compile()`` makes of it.
_ELSEWHERE = {
    *("_parameters", "_flat_weights", "_flat_weight_refs"),
    *("_modules", "_compiled_call_impl"),
}


def module_parts(module: Any) -> list[object]:  # noqa: ANN401 - torch may not be there
    """Return for every part of a module its class, what it holds, and of what type it computes.

    Hooks are numbered by all that the process has ever registered, so only their order counts.
    """
    own = {id(p) for p in module.parameters()}
    found: list[object] = []
    for name, part in module.named_modules():
        kinds = [(key, str(p.dtype)) for key, p in part.named_parameters(recurse=False)]
        found.append((name, type(part), kinds, _held(part, own)))
    return found


def _held(part: Any, own: set[int]) -> object:  # noqa: ANN401
    home = type(part).__module__
    if home.startswith("torch._dynamo"):  # around the module, which is a part of it
        return None
    if home.startswith("torch.jit"):  # compiled: its text says all, what it holds is out of sight
        return [part.code, _sorted(part.code_with_constants[1].const_mapping)]
    held = {name: value for name, value in vars(part).items() if name not in _ELSEWHERE}
    return _sorted(
        {
            name: list(value.values()) if name.endswith("_hooks") else value
            for name, value in held.items()
            if not _is_of_parameters(value, own)
        }
    )


def _sorted(parts: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(parts.items(), key=lambda pair: pair[0])


def _is_of_parameters(value: object, own: set[int]) -> bool:
    """Whether it is another list of the parameters."""
    return isinstance(value, list | tuple) and bool(value) and all(id(v) in own for v in value)
