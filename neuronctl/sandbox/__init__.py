"""A real Slurm on one machine, built from a catalog cluster.

``layout`` decides on nodes and names, ``slurmconf`` and ``joblua`` turn it into the text of Slurm's
own files (all pure); ``init`` is the first process of the namespaces and runs the daemons;
``client`` finds it from outside, brings it up and takes it down, ``enter`` runs commands in it.
``kernel`` holds the system calls. Nothing is kept on disk: what the daemons write lies in a tmpfs
that only exists in the namespace, and a running sandbox is found by the socket its first process
listens on.
"""
