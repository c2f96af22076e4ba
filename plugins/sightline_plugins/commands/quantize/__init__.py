"""Makes models that compute in 8 bits, and shows what they lose and gain."""
