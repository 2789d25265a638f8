"""The version of neuronctl."""

__version__ = "0.1.0"
