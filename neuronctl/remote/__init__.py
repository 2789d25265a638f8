"""A cluster that is reached from another machine, over one ssh connection that its user opened.

connection.py opens, checks, and closes it; only that authenticates. session.py runs neuronctl there
and tells an end from a loss; payload.py packs what it needs. project.py sends the project and
brings files back; host.py is the other side of both.
"""
