"""The store: models of this machine by name and version, each whole and with a record of what it is.

```text
FOLDER/NAME/VERSION/NAME.onnx     the model
                    NAME.yaml     its card
                    model.json    its record: files with SHA-256, licence, where it came from, figures
```

Files beside these, such as a quantised model, are made on this machine and are no part of the version.
"""

from sightline_plugins.store.folder import Store, Stored, stored_model
from sightline_plugins.store.record import Accuracy, FileRecord, Origin, Record, Reference, Speed

__all__ = ["Accuracy", "FileRecord", "Origin", "Record", "Reference", "Speed", "Store", "Stored", "stored_model"]
