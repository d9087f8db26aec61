"""HTTP/2, where libnghttp2 is: a connection's frames, and the requests that they carry."""
