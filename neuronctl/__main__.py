"""``python -m neuronctl``."""

from neuronctl.cli import main

if __name__ == "__main__":
    main()
