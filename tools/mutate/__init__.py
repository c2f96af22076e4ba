"""Mutation testing: change one small part of a module at a time, and see whether a test notices (`make mutate`).

`mutmut` 3 and `cosmic-ray` were considered. `mutmut` writes all variants of each function into the module, which
changes line numbers and what `inspect` sees, and goes through a project module by module. `cosmic-ray` runs one fixed
command for all mutants. Neither samples evenly over several hundred modules within a given time, which two cores need,
so this tool is our own: `changes` finds the places, `reach` knows which tests run which line, `tree` is the copy in
which modules are changed, `trials` applies changes and keeps what came of them.
"""
