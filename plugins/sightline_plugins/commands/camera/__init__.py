"""A fake camera: a real RTSP server on the loopback whose faults are set on purpose, and its command.

`server.FakeCamera` sends packets (`clip.Clip`) that `packets.load_clip` reads from a video file.
"""
