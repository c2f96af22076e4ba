"""`sightline soak`: a pipeline runs for hours, and what grows is found out."""
