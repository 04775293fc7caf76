"""Problems to try things on: ``bequest.problems``. They live in ``bequest.model.problems``."""

from bequest.model.problems import Basis, Spectrum, quadratics

__all__ = ["Basis", "Spectrum", "quadratics"]
