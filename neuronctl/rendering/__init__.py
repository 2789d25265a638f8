"""From a plan to the text of a script: launch lines, containers, environments, templates."""
