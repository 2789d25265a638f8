"""Start neuronctl from where it is unpacked."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from neuronctl.cli import program

program()
