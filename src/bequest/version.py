"""The version, where every module can import it, and the versions of everything that computes."""

from functools import cache

__version__ = "0.1.0"


@cache
def versions() -> dict[str, str]:
    """Return the versions of bequest, Python, and the packages that compute."""
    # Imported here: to know the version alone, nothing else is needed.
    import platform
    from importlib.metadata import version

    own = {"bequest": __version__, "python": platform.python_version()}
    return own | {name: version(name) for name in ("numpy", "scipy", "networkx")}


def provenance() -> dict[str, str]:
    """Return the versions, and the kind of machine that computes."""
    import platform

    return {**versions(), "machine": f"{platform.system()} {platform.machine()}"}
