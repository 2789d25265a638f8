"""A real Slurm on one machine, built from a catalog cluster.

``layout`` decides on nodes and names, and ``config_files`` has the texts of Slurm's and the
system's files (both pure); what all sandboxes have in /etc is in ``etc``. ``init`` is the first
process of the namespaces and runs the daemons; ``client`` finds, starts, and stops it from outside;
``enter`` runs commands in it. ``kernel`` has the system calls. Nothing is stored on disk: the
daemons write to a tmpfs that exists only in the namespace, and a running sandbox is found by the
socket that its first process listens on.
"""
