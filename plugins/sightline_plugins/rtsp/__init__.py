"""RTSP and RTP, the server's side, without any codec: what the fake camera and the publisher have in common."""
