"""Live video in browsers: a page, and fragmented MP4 over WebSockets."""
