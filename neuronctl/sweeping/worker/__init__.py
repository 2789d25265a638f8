"""The worker of a sweep: each of its jobs runs a copy of this package from the sweep's folder.

It needs Python 3.6 and its standard library only, and imports nothing else of neuronctl, which
itself reads and writes the files of a sweep through ``files``.
"""
