"""Files for those who run Windlass: units, manifests, a dashboard and alert rules, made from templates in `files/`."""
