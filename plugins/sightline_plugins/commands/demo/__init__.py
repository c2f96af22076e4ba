"""The demo: sample clips and models in a folder, and a pipeline that runs on them."""
