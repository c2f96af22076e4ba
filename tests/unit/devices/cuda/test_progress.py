"""What the host knows of the work of streams without asking: exactly what was behind a point that it waited for."""

from __future__ import annotations

from sightline.devices.cuda.progress import Point, Progress


def recorded(progress: Progress) -> Point:
    return progress.point().recorded()


def test_nothing_is_known_before_somebody_has_waited() -> None:
    assert not recorded(Progress()).is_done


def test_points_before_one_that_is_reached_are_done_and_later_ones_are_not() -> None:
    stream = Progress()
    first, second, third = (recorded(stream) for _ in range(3))

    second.reached()

    assert [first.is_done, second.is_done, third.is_done] == [True, True, False]


def test_of_points_that_are_recorded_at_once_neither_is_known_to_be_first() -> None:
    stream = Progress()
    one, other = stream.point(), stream.point()
    one.recorded()
    other.recorded()

    other.reached()

    assert not one.is_done


def test_what_a_stream_waited_for_before_a_point_is_done_with_it() -> None:
    decoding, model = Progress(), Progress()
    image = recorded(decoding)
    model.has_waited(image)
    later = recorded(decoding)
    batch = recorded(model)
    model.has_waited(later)

    batch.reached()

    assert [image.is_done, later.is_done] == [True, False]


def test_it_is_known_through_several_streams_and_back_again() -> None:
    one, two, three = Progress(), Progress(), Progress()
    first = recorded(one)
    two.has_waited(first)
    second = recorded(two)
    three.has_waited(second)
    third = recorded(three)
    one.has_waited(third)
    last = recorded(one)

    last.reached()

    assert all(point.is_done for point in (first, second, third))


def test_a_stream_for_which_nobody_waits_remembers_the_newest_waits_alone() -> None:
    decoding, model = Progress(), Progress()
    images = [recorded(Progress()), *(recorded(decoding) for _ in range(256))]
    for image in images:
        model.has_waited(image)

    recorded(model).reached()

    assert not images[0].is_done
    assert all(image.is_done for image in images[1:])
