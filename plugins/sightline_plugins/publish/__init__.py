"""Publishing: live video for whoever watches, by RTSP, RTMP, HLS and over WebSockets."""
