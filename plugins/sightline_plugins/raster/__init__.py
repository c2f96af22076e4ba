"""Drawing into the planes of a surface, on the CPU: fills, lines, masks, text, and what hides; kernels do the same."""
