"""The version of fi_compat, read by the build and by ``fi_compat.__version__``."""

__all__ = ["__version__"]

__version__ = "0.1.0"
