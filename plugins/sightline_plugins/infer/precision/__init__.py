"""In which precision a model is computed: as its file says, halved, or from the quantised file beside it."""
