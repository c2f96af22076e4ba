"""RTSP and RTP, the server's side: shared by `publish` and the fake camera."""
