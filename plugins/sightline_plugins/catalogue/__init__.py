"""The catalogue: models that may be used in products, with where they come from, and those that are on this machine.

Each is a YAML file in `data/`. Nothing is downloaded unless somebody asks for it (`sightline models pull`).
"""

from sightline_plugins.catalogue.entries import Entry, Licence, Measurement, entries, entry_names, find_entry
from sightline_plugins.catalogue.storage import pulled

__all__ = ["Entry", "Licence", "Measurement", "entries", "entry_names", "find_entry", "pulled"]
