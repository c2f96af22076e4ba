"""`sightline replay`: a recorded run is run again, and what comes out is compared."""
