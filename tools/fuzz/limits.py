"""What a mutant may cost."""

WALL_SECONDS = 10.0
CPU_SECONDS = 10
ROOM_MIB = 1_024
"""Address space beyond the memory that a mutant may take: stacks of threads and arenas, which cost nothing."""
START_SECONDS = 120.0
"""Until a child is ready: importing and the first mutant, on a busy machine."""
