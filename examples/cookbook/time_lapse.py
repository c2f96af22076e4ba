"""Make a short video of all events: one image for each, four a second.

Needs: rules that report events; here, a line at the door of a station.
Makes: out/time-lapse/events.mp4.
"""

from sightline import Pipeline
from sightline_plugins import Draw, Images, Lines, Media, Replay, Snapshots, Track, Video

FOLDER = "out/time-lapse"

if __name__ == "__main__":
    door = Lines.model_validate({"door": {"from": [0.37, 0.375], "to": [0.71, 0.415]}})
    people = Replay(path="sample_videos/entrance.mot.txt", label="person")  # Detect(model="models/street.onnx")
    saved = Snapshots(path=f"{FOLDER}/images/{{frame}}.jpg")
    entrance = Media(uri="sample_videos/entrance.mp4")
    Pipeline(sources={"entrance": entrance}, steps=[people, Track(), door, Draw(), saved]).run()
    images = Images(uri=f"{FOLDER}/images/*.jpg", fps=4)
    Pipeline(sources={"events": images}, steps=[Video(path=f"{FOLDER}/{{stream}}.mp4")]).run()
