"""Publish live video over RTSP, RTMP, HLS and WebSockets."""
