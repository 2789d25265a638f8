"""The version of neuronctl."""

__version__ = "0.2.0"
