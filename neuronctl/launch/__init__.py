"""How a program is started on the nodes: launchers, containers, environments."""
