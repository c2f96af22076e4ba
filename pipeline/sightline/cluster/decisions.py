"""What a controller decides about all workers and streams at once; nothing here changes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sightline.cluster.model import ClusterOptions, ClusterStatus, RolloutStatus, WorkerStatus
from sightline.cluster.placement import Fleet, balance, place
from sightline.cluster.tables import Tables

_LATE_HEARTBEATS = 2
"""A worker that is silent for so many heartbeats is given no streams."""


def fleet_of(tables: Tables, *, now_ns: int, options: ClusterOptions, with_penalised: bool = False) -> Fleet:
    """The workers, of which those are open that may be given streams now. `with_penalised` opens those, too, that have
    come back a short time ago.
    """
    workers, count = tables.workers, len(tables.workers)
    used, streams = tables.streams.usage(count)
    is_open = workers.is_present[:count] & workers.is_known[:count] & ~workers.is_draining[:count]
    is_open &= workers.is_configured[:count] & ~workers.is_unable[:count]
    is_open &= now_ns - workers.seen_ns[:count] <= _LATE_HEARTBEATS * options.heartbeat_ns
    if not with_penalised:
        is_open &= workers.back_ns[:count] <= now_ns
    matches = tables.classes.matches[:, :count]
    return Fleet(workers.capacity[:count], used, streams, workers.limit[:count], matches, is_open)


def evacuations(tables: Tables, *, now_ns: int, options: ClusterOptions) -> list[tuple[int, int, str]]:
    """Streams to move (row, worker, why) from workers that are drained, cannot run the configuration, or no longer have
    the labels they require.
    """
    streams, workers, count = tables.streams, tables.workers, len(tables.streams)
    most = _allowed_moves(tables, options)
    held = (streams.holder[:count] >= 0) & ~streams.is_leaving[:count] & ~streams.is_gone[:count]
    rows = streams.rows(held)
    holders = streams.holder[rows]
    matches = tables.classes.matches[streams.kind[rows], holders]
    rows = rows[workers.is_draining[holders] | workers.is_unable[holders] | (workers.is_known[holders] & ~matches)]
    if not len(rows) or most <= 0:
        return []
    fleet = fleet_of(tables, now_ns=now_ns, options=options)
    chosen = place(rows, held=streams.held(), fleet=fleet, fill=options.fill, spread=options.spread)
    found = []
    for index in np.flatnonzero(chosen >= 0)[:most].tolist():
        row = int(rows[index])
        holder = int(streams.holder[row])
        name = workers.names[holder]
        why = "no longer has the labels that it requires"
        if workers.is_draining[holder] or workers.is_unable[holder]:
            why = "is drained" if workers.is_draining[holder] else "cannot run the configuration"
        found.append((row, int(chosen[index]), f"{name} {why}"))
    return found


def moves_that_balance(tables: Tables, *, now_ns: int, options: ClusterOptions) -> list[tuple[int, int]]:
    """Streams to move (row, worker) from full workers to empty ones; only those whose last start is confirmed."""
    streams, count = tables.streams, len(tables.streams)
    most = _allowed_moves(tables, options)
    if most <= 0:
        return []
    fleet = fleet_of(tables, now_ns=now_ns, options=options)
    rows = streams.rows((streams.holder[:count] >= 0) & ~streams.is_leaving[:count] & ~streams.is_gone[:count])
    holders = streams.holder[rows]
    return balance(
        rows[fleet.is_open[holders] & (streams.since[rows] <= tables.workers.confirmed[holders])],
        held=streams.held(),
        fleet=fleet,
        fill=options.fill,
        tolerance=options.tolerance,
        spread=options.spread,
        most=most,
    )


def reason_to_wait(tables: Tables, kind: int, *, fill: float) -> str:
    """Why streams with certain requirements have no worker, and what to do."""
    workers, count = tables.workers, len(tables.workers)
    wanted = tables.classes.text(kind)
    matching = tables.classes.matches[kind, :count]
    present = matching & workers.is_present[:count] & workers.is_known[:count]
    of_kind = f"worker with {wanted}" if wanted else "worker"
    if not matching.any():
        return f"no {of_kind} is known: add one, or correct the label"
    if not present.any():
        return f"no {of_kind} is present"
    if not (present & workers.is_configured[:count] & ~workers.is_unable[:count]).any():
        return f"no {of_kind} runs the configuration yet"
    if not (present & ~workers.is_draining[:count]).any():
        return f"every {of_kind} is being drained"
    return f"no {of_kind} has room (filled to {fill:.0%} of its capacity at most): add workers"


def status_of(
    tables: Tables,
    *,
    term: int,
    waiting: Mapping[str, str],
    refused: Mapping[str, str],
    refused_workers: Mapping[str, str],
    rollout: RolloutStatus,
    configurations: Mapping[str, str],
    now_ns: int,
    options: ClusterOptions,
) -> ClusterStatus:
    """Put together the view of a cluster."""
    workers, streams = tables.workers, tables.streams
    used, count = streams.usage(len(workers))
    names = streams.names
    present = np.flatnonzero(streams.is_there[: len(streams)]).tolist()
    return ClusterStatus(
        term,
        tuple(
            WorkerStatus(
                name,
                bool(workers.is_present[row]),
                bool(workers.is_draining[row]),
                int(count[row]),
                float(used[row]),
                float(workers.capacity[row]),
                workers.labels[row],
                configurations[name],
            )
            for row, name in enumerate(workers.names)
            if name
        ),
        {
            names[row]: (workers.names[streams.holder[row]], int(streams.epoch[row]))
            for row in present
            if streams.holder[row] >= 0
        },
        tuple(names[row] for row in present if streams.is_leaving[row]),
        waiting,
        refused,
        refused_workers,
        fleet_of(tables, now_ns=now_ns, options=options).imbalance(),
        rollout,
    )


def _allowed_moves(tables: Tables, options: ClusterOptions) -> int:
    """How many more streams may be stopped now to start elsewhere."""
    streams, count = tables.streams, len(tables.streams)
    stopped = (streams.holder[:count] >= 0) & (streams.is_leaving[:count] | (streams.blind_ns[:count] > 0))
    return max(1, int(options.moving * len(streams.row_of))) - int(np.count_nonzero(stopped))
