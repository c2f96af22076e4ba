"""The contract of sinks, as a test class that any sink can be put through.

    class TestMySink(SinkConformance):
        def sink(self, folder):
            return MySink(path="rows.db")

        def written(self, folder):
            return [(row.stream, row.frame) for row in read(folder / "rows.db")]

A sink that delivers records to a destination finds them in `self.outbox.records`.
An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from sightline.graph import Element
from sightline.media import Batch
from sightline.testing.outbox import MemoryOutbox
from sightline.testing.run import run_element, site_for
from sightline.testing.synthetic import make_batches, make_frames


class SinkConformance(ABC):
    """Tests of the sink contract, beside those of every element (`conformance.CHECKS`). A subclass writes `sink` and
    `written`; pytest collects it by its name.
    """

    frames = 12

    @cached_property
    def outbox(self) -> MemoryOutbox:
        """What the sinks of this test deliver."""
        return MemoryOutbox()

    @abstractmethod
    def sink(self, folder: Path) -> Element:
        """Return the sink; relative paths lie below `folder`."""

    @abstractmethod
    def written(self, folder: Path) -> Sequence[tuple[str, int]]:
        """Return stream and index of every frame that was written below `folder`, in the order they were written."""

    def batches(self) -> list[Batch]:
        """Return frames of two streams in turn, with objects; one that a sink leaves out is not in it."""
        streams = (make_batches(make_frames(self.frames, stream=name)) for name in ("gate", "yard"))
        return [batch for pair in zip(*streams, strict=True) for batch in pair]

    def test_every_frame_is_written_once(self, tmp_path: Path) -> None:
        """After the end of the streams everything is there, whole, and nothing twice."""
        run_element(self.sink(tmp_path), self.batches(), outputs=tmp_path, outbox=self.outbox)

        expected = sorted((frame.stream.name, frame.index) for batch in self.batches() for frame in batch.frames)
        assert sorted(self.written(tmp_path)) == expected, "frames are missing, or were written twice"

    def test_frames_of_a_stream_are_written_in_their_order(self, tmp_path: Path) -> None:
        """Streams may be mixed; each of them keeps its order."""
        run_element(self.sink(tmp_path), self.batches(), outputs=tmp_path, outbox=self.outbox)

        for name in ("gate", "yard"):
            own = [index for stream, index in self.written(tmp_path) if stream == name]
            assert own == sorted(own), f"the frames of {name!r} were written in the order {own}"

    def test_batches_pass_unchanged(self, tmp_path: Path) -> None:
        """A sink gives back the batch that it was given."""
        batches = self.batches()

        passed = run_element(self.sink(tmp_path), batches, outputs=tmp_path, outbox=self.outbox)
        assert all(one is other for one, other in zip(batches, passed, strict=True)), "a batch was replaced"

    def test_nothing_is_lost_when_the_run_ends_early(self, tmp_path: Path) -> None:
        """A run that is aborted only closes its sinks: what they were given is written all the same."""
        operator = self.sink(tmp_path).build(site_for("sink", tmp_path, outbox=self.outbox))
        batches = self.batches()[:6]
        for batch in batches:
            operator.process(batch)
        operator.close()

        expected = sorted((frame.stream.name, frame.index) for batch in batches for frame in batch.frames)
        assert sorted(self.written(tmp_path)) == expected, "frames are missing after an early end"

    def test_closing_again_is_harmless(self, tmp_path: Path) -> None:
        """Also when there was no frame."""
        operator = self.sink(tmp_path).build(site_for("sink", tmp_path, outbox=self.outbox))
        operator.close()
        operator.close()

    def test_it_is_declared_as_a_sink(self, tmp_path: Path) -> None:
        """Sinks run in a thread of their own, and serve all GPUs."""
        sink = self.sink(tmp_path)
        assert type(sink).sink, "set `sink: ClassVar[bool] = True`"
        assert sink.serves_all_gpus(), "one operator of a sink serves all GPUs"
