"""The version, where everybody can import it."""

__version__ = "0.1.0"
