"""Other tools' packages read what was written for them."""
