"""Does rewriting a graph change what it computes? Many architectures with random weights, each compared with its file.

`export.py` writes the files (with PyTorch), `__main__.py` compares.
"""
