"""The command `python -m tools.train`."""

from __future__ import annotations

from pathlib import Path

import click

from tools.train.evaluate import evaluate as measure
from tools.train.export import export_detector, parameters
from tools.train.samples import load, render

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def main() -> None:
    """Train and measures the models of the sample world (see tools/train/README.md)."""


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the labelled images go.")
@click.option("--scenes", type=click.IntRange(min=1), default=450, show_default=True, help="Ten images each.")
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True)
def samples(folder: Path, scenes: int, processes: int) -> None:
    """Render labelled images of the training seeds; goes on where it stopped."""
    render(folder=folder, scenes=scenes, processes=processes)


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the labelled images are.")
@click.option("--weights", type=FILE, required=True, help="Where the trained weights go.")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=40.0, show_default=True)
@click.option("--resume", is_flag=True, help="Start from the weights that are there.")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), default=2.5e-3, show_default=True, help="Learning rate."
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--number", type=click.IntRange(min=0), default=0, show_default=True, help="This process's number.")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that train together."
)
def detector(
    folder: Path, weights: Path, minutes: float, resume: bool, rate: float, threads: int, number: int, count: int
) -> None:
    """Train the detector for so many minutes; start it COUNT times, with numbers from 0 on, to use more cores."""
    import torch

    from tools.train.fit import fit

    torch.set_num_threads(threads)
    fit(folder=folder, weights=weights, minutes=minutes, resume=resume, rate=rate, number=number, count=count)


@main.command()
@click.option("--weights", type=FILE, required=True)
@click.option("--model", type=FILE, default=Path("models/street.onnx"), show_default=True)
def export(weights: Path, model: Path) -> None:
    """Write trained weights as ONNX."""
    export_detector(weights=weights, model=model)
    click.echo(f"{model}: {parameters(model)} parameters, {model.stat().st_size / 1e6:.2f} MB")


@main.command()
@click.option("--model", type=FILE, default=Path("models/street.onnx"), show_default=True)
@click.option("--scenes", type=click.IntRange(min=1), default=60, show_default=True, help="Six images each.")
def evaluate(model: Path, scenes: int) -> None:
    """Measure the detector on unseen scenes after H.264."""
    score = measure(model=model, scenes=scenes)
    for label, precision in score.average_precision.items():
        click.echo(f"{label:10} AP50 {precision:.4f} of {score.demanded[label]} objects")
    click.echo(f"{'mean':10} AP50 {score.mean:.4f} on {score.images} images of {scenes} scenes")


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the labelled images are; they serve as backgrounds.")
@click.option("--model", type=FILE, default=Path("models/vehicle.onnx"), show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
def vehicle(folder: Path, model: Path, threads: int) -> None:
    """Train the classifier of vehicles and write it as ONNX."""
    import torch

    from tools.train.vehicle import fit_classifier

    torch.set_num_threads(threads)
    fit_classifier(load(folder, scenes=60), model=model)
    click.echo(f"{model}: {parameters(model)} parameters, {model.stat().st_size / 1e6:.2f} MB")


@main.command()
@click.option("--model", type=FILE, default=Path("models/vehicle.onnx"), show_default=True)
@click.option("--scenes", type=click.IntRange(min=1), default=40, show_default=True)
def evaluate_vehicle(model: Path, scenes: int) -> None:
    """Measure the classifier on vehicles of unseen scenes."""
    from tools.train.vehicle import accuracy

    colour, kind, count = accuracy(model, scenes=scenes)
    click.echo(f"colour {colour:.4f}, kind {kind:.4f} of {count} vehicles")


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the crops go.")
@click.option("--scenes", type=click.IntRange(min=1), default=66, show_default=True, help="44 images each.")
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True)
def plate_samples(folder: Path, scenes: int, processes: int) -> None:
    """Render gates of the training seeds and cut out vehicles and plates; goes on where it stopped."""
    from tools.train import plate_samples as samples

    samples.render(folder=folder, scenes=scenes, processes=processes)


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the crops are.")
@click.option("--model", type=FILE, default=Path("models/plate.onnx"), show_default=True)
@click.option("--minutes", type=click.FloatRange(min=0.1), default=12.0, show_default=True)
def plate(folder: Path, model: Path, minutes: float) -> None:
    """Train the detector of number plates on one core and write it as ONNX."""
    import torch

    from tools.train import plate_samples as samples
    from tools.train.plate import fit_plates

    torch.set_num_threads(1)
    fit_plates(samples.load(folder)[0], model=model, minutes=minutes)
    click.echo(f"{model}: {parameters(model)} parameters, {model.stat().st_size / 1e6:.2f} MB")


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the crops are.")
@click.option("--model", type=FILE, default=Path("models/plate_text.onnx"), show_default=True)
@click.option("--minutes", type=click.FloatRange(min=0.1), default=13.0, show_default=True)
def plate_text(folder: Path, model: Path, minutes: float) -> None:
    """Train the reader of number plates on one core and write it as ONNX."""
    import torch

    from tools.train import plate_samples as samples
    from tools.train.plate_text import fit_reader

    torch.set_num_threads(1)
    fit_reader(samples.load(folder)[1], model=model, minutes=minutes)
    click.echo(f"{model}: {parameters(model)} parameters, {model.stat().st_size / 1e6:.2f} MB")


@main.command()
@click.option("--model", type=FILE, default=Path("models/plate.onnx"), show_default=True)
@click.option("--reader", type=FILE, default=Path("models/plate_text.onnx"), show_default=True)
@click.option("--scenes", type=click.IntRange(min=1), default=12, show_default=True, help="60 images each.")
def evaluate_plates(model: Path, reader: Path, scenes: int) -> None:
    """Measure both on readable plates of unseen gates after H.264."""
    from tools.train.plate_accuracy import PlateModels, measure

    score = measure(PlateModels(plate=model, reader=reader), scenes=scenes)
    right, tracks = score.tracks
    click.echo(f"found {score.found} of {score.readable} plates, mean IoU {score.overlap / score.readable:.3f}")
    click.echo(f"text right in {score.read} where the truth has them, in {score.chained} where they were found")
    click.echo(f"text right of {right} of {tracks} tracks after a vote of their images")


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the crops go.")
@click.option("--scenes", type=click.IntRange(min=1), default=105, show_default=True, help="8 images each.")
@click.option(
    "--posed", type=click.IntRange(min=0), default=180, show_default=True, help="Posed objects for each scene."
)
@click.option("--processes", type=click.IntRange(min=1), default=2, show_default=True)
def search_samples(folder: Path, scenes: int, posed: int, processes: int) -> None:
    """Render scenes of the training seeds and cut out what is to be described; goes on where it stopped."""
    from tools.train import search_samples as samples

    samples.render(folder=folder, scenes=scenes, posed=posed, processes=processes)


@main.command()
@click.option("--folder", type=FOLDER, required=True, help="Where the crops are.")
@click.option("--model", type=FOLDER, default=Path("models/search"), show_default=True, help="The folder of the pair.")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=13.0, show_default=True)
@click.option("--text-only", is_flag=True, help="Keep the image encoder that is there: for other words, in less time.")
@click.option("--resume", is_flag=True, help="Start from the pair that is there.")
def search(folder: Path, model: Path, minutes: float, text_only: bool, resume: bool) -> None:
    """Train the encoders for search in words on one core and write them as ONNX."""
    import torch

    from tools.train import search_samples as samples
    from tools.train.search import fit_pair, fit_text

    torch.set_num_threads(1)
    crops = samples.load(folder)
    if text_only:
        fit_text(crops, folder=model, minutes=minutes)
    else:
        fit_pair(crops, folder=model, minutes=minutes, resume=resume)


if __name__ == "__main__":
    main()
