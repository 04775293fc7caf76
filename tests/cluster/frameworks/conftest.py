"""Models of torch and JAX on the clusters of the folder above; `make test-models` runs these."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # `import silos`


@pytest.fixture(scope="session", autouse=True)
def _known_everywhere():
    """Ray's workers do not have this folder: what is in `silos` travels as it is."""
    import silos
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(silos)
