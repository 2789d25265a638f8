"""A cluster that is reached from another machine, over one ssh connection that its user opened.

connection.py opens, checks, and closes it; only that authenticates. channel.py runs neuronctl there
(payload.py is what it sends of itself) and tells an end from a loss. project.py sends the project
and brings files back; host.py is the other side of both.
"""
