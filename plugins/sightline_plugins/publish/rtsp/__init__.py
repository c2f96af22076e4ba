"""Live video by RTSP: a server for players, recorders and other pipelines."""
