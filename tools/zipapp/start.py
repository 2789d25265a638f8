"""Start neuronctl from where it is unpacked."""

import contextlib
import fcntl
import os
import sys

# As long as this process lives, a newer copy does not remove this one: see unpack.py.
with contextlib.suppress(OSError):  # a file system without locks
    fcntl.flock(os.open(__file__, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from neuronctl.cli import process

process()
