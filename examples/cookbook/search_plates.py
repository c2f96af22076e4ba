"""Find plates in a log by a part of their text.

Needs: the file that plate-log.yaml makes.
Makes: a line for each track: plate, stream, and the seconds of its first and last frame.
"""

import sqlite3
import sys
from contextlib import closing

FIND = """
SELECT json_extract(attributes, '$.text') AS plate, stream, min(pts_ns) / 1e9, max(pts_ns) / 1e9
FROM objects WHERE label = 'plate' AND plate LIKE '%' || ? || '%' GROUP BY plate, stream, track_id ORDER BY 3
"""

if __name__ == "__main__":
    part, path = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "out/plate-log.db"
    with closing(sqlite3.connect(path)) as log:
        for plate, stream, first, last in log.execute(FIND, [part]):
            print(f"{plate} {stream} {first:.1f} {last:.1f}")
