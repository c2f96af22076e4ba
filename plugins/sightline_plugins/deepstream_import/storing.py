"""Put the models of an import into the store, with cards, and name them from there."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.errors import ModelError
from sightline_plugins.deepstream_import.plan import Import
from sightline_plugins.model_import.adding import add_package
from sightline_plugins.store import Store


def store_models(imported: Import, store: Store) -> Iterator[str]:
    """Add the models that are there, and leave to their cards what steps would say. Yield a line about each.

    Models that are missing, and those that the store refuses because their card is not true, stay as they are. Raises
    OutputError where the store cannot be written.
    """
    for step in imported.plan.steps():
        if step.package is None:
            continue
        try:
            added = add_package(step.package, store)
        except ModelError as error:
            yield f"not in the store: {error}"
            continue
        kept = {key: value for key, value in step.options.items() if key not in step.of_card}
        step.options = {**kept, "model": str(added.stored.record.reference)}
        state = "added" if added.is_new else "was there"
        yield f"{added.stored.record.reference}: {state}, from {step.package.model}"
