"""HTTP/2, if libnghttp2 is available: a connection's frames, and the requests that they carry."""
