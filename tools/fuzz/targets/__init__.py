"""What is fuzzed: each target makes mutants from a seed, and says whether the project took one as it should."""
