"""From a plan to the text of a script, which stands in templates/; only this imports jinja2."""
