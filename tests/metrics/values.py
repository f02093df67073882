"""Parse exposed metrics to numbers."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def read(text: bytes) -> dict[str, float]:
    """Return every series by its name and labels, as in `windlass_queue_tasks{queue=mail,state=leased}`."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, f"{name} is there twice"
            found[name] = sample.value
    return found
