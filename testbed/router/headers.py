"""Headers of HTTP as a proxy passes them on: all but those that are about one connection."""

Headers = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"content-length", b"host", b"expect", b"http2-settings", b"proxy-connection",
})


def end_to_end(name: bytes) -> bool:
    """Whether a header, in lower case, is for the far end: not about the connection, the length or the host."""
    return name not in _HOP_BY_HOP


def header_lines(headers: Headers) -> bytes:
    """The lines as they go out."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)
