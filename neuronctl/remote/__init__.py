"""A cluster that is reached from another machine, over one ssh connection that its user opened.

Only connection.py authenticates: it opens, checks, and closes the connection. session.py runs
neuronctl there and tells an end from a loss; payload.py packs what neuronctl needs. project.py
sends the project and brings files back. host.py is the other side of session.py and project.py.
"""
