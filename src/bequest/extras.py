"""The optional dependencies of the package: its extras.

Code that needs one of them asks here first, before anything is computed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, TypeAlias

from bequest.errors import NotInstalled

Extra: TypeAlias = Literal[
    "plot", "data", "sklearn", "frame", "parquet", "onnx", "ray", "torch", "jax"
]

# extra -> the module that it installs, and its usual name
MODULES: dict[Extra, str] = {
    "plot": "matplotlib",
    "data": "sklearn",
    "sklearn": "sklearn",
    "frame": "pandas",
    "parquet": "pyarrow",
    "onnx": "onnx",
    "ray": "ray",
    "torch": "torch",
    "jax": "jax",
}
_NAMES: dict[Extra, str] = MODULES | {
    "data": "scikit-learn",
    "sklearn": "scikit-learn",
    "ray": "Ray",
    "jax": "JAX",
}


def is_there(extra: Extra) -> bool:
    """Whether it is installed; nothing is imported to find out."""
    found = find_spec(MODULES[extra])
    # A folder of that name in the working directory is found as well, but has no origin.
    return found is not None and found.origin is not None


def need(*extras: Extra, what: str) -> None:
    """Go on only if all of these are installed; ``what`` needs them, and begins the sentence.

    Raises:
        NotInstalled: some are not.
    """
    missing = [extra for extra in MODULES if extra in extras and not is_there(extra)]
    if missing:
        names, plural = " and ".join(_NAMES[extra] for extra in missing), len(missing) > 1
        raise NotInstalled(
            f"{what} needs {names}, which {'are' if plural else 'is'} not installed.",
            remedy=f"Install {'them' if plural else 'it'} with: "
            f'pip install "bequest[{",".join(missing)}]"',
        )
