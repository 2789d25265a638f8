"""Render a plan as a script from templates/; only this package imports jinja2."""
