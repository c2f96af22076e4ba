"""GPUs: their memory, streams and kernels. It knows no codec and no model, and importing it imports no GPU library."""
