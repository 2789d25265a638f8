"""From a plan to the text of a script; the only package that imports jinja2."""
