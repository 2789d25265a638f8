"""``python -m neuronctl``."""

from neuronctl.cli import process

if __name__ == "__main__":
    process()
