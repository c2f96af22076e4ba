"""Anchor-free heads that predict a box in every cell of a grid."""
