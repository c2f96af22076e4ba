"""`sightline cluster`: one pipeline on many machines, which Ray joins."""
