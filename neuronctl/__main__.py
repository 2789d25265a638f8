"""``python -m neuronctl``."""

from neuronctl.cli import program

if __name__ == "__main__":
    program()
