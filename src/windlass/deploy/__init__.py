"""Deployment files: units, manifests, a dashboard and alert rules, rendered from the templates in `files/`."""
