"""A fake camera: an RTSP server that injects faults on request, and its command.

`server.FakeCamera` plays a `clip.Clip`, which `packets.load_clip` reads from a video file.
"""
