"""Request: what a client asks for, as everything but its application sees it: logs, static files, WebSockets,
and the proxies that speak of their clients.

An interface. Each kind of application has one over what it gives to its application, so nothing is made for a
request that nobody asks about. The parts are str whose characters are bytes; the path is percent-decoded.
Fields of one name are joined (RFC 9110, 5.3).

HeadRequest is one of bytes that no application sees, or has seen: those that the server refuses, and those
that native threads have answered.
"""

from syncless.http.wire.wire cimport (
    HEAD_DROPPED, HEAD_UNKNOWN, HTTP_2, K_HOST, decode_path, head_header, head_limits, name_of, scan_fields,
    scan_line,
)

from syncless.http.trust import is_forwarding

cdef dict KNOWN = {}
cdef int _i = 0
while name_of(_i) != NULL:
    KNOWN[name_of(_i).decode()] = _i
    _i += 1

# The meta-variables of CGI (RFC 3875, 4.1), for those who know a request by them.
cdef dict VARIABLES = {
    "REQUEST_METHOD": METHOD, "SCRIPT_NAME": ROOT_PATH, "PATH_INFO": PATH, "QUERY_STRING": QUERY,
    "SERVER_PROTOCOL": VERSION, "SERVER_NAME": LOCAL_NAME, "SERVER_PORT": LOCAL_PORT,
    "REMOTE_ADDR": CLIENT, "REMOTE_PORT": CLIENT_PORT, "REMOTE_USER": USER, "REMOTE_IDENT": IDENT,
}


cpdef int known_field(str name):
    """Return the index of a name in lower case among those that clients usually send (wire/names.h)."""
    return KNOWN.get(name, HEAD_UNKNOWN)


def part_of(str variable not None):
    """Return the number of the part that is a meta-variable of CGI."""
    return VARIABLES.get(variable)


cdef class Request:
    """part()       one of the parts, or None
    get()           a field, by its name in lower case and known_field(name); None without one
    fields()        pairs of name, in lower case, and value
    change()        as a trusted proxy says
    variables()     the same as CGI meta-variables
    """

    cdef object part(self, Part part):
        return None

    cdef int change(self, Part part, object value) except -1:
        return 0

    cdef object get(self, str name, int known):
        return None

    cdef list fields(self):
        return []

    cdef object variable(self, str name):
        """One of variables(), or None."""
        return self.variables().get(name)

    cpdef dict variables(self):
        """CGI meta-variables (RFC 3875, 4.1): hooks and %{NAME}e of the access log know a request by them."""
        cdef dict variables = {}
        for name, number in VARIABLES.items():
            value = self.part(number)
            if value is not None:
                variables[name] = value
        if self.part(SCHEME) == "https":
            variables["HTTPS"] = "on"
        for name, value in self.fields():
            name = name.upper().replace("-", "_")
            variables[name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else "HTTP_" + name] = value
        return variables

    def left(self, str key not None):
        """Return what the application, or its framework, has added to what it was given under this
        key; None without it."""
        return None if self.values is None else self.values.get(key)

    def field(self, str name not None):
        """Return a header field, by its name in lower case; None without one."""
        return self.get(name, KNOWN.get(name, HEAD_UNKNOWN))

    @property
    def method(self):
        return self.part(METHOD)

    @property
    def root_path(self):
        """The part of the path below which the application lies."""
        return self.part(ROOT_PATH)

    @property
    def path(self):
        """The path below that, percent-decoded."""
        return self.part(PATH)

    @property
    def query(self):
        return self.part(QUERY)

    @property
    def version(self):
        """The protocol's, such as HTTP/1.1."""
        return self.part(VERSION)

    @property
    def client(self):
        """The client's address; "" for a UNIX socket."""
        return self.part(CLIENT)

    @client.setter
    def client(self, str address not None):
        self.change(CLIENT, address)

    @property
    def client_port(self):
        """The client's port; "" if it is not known."""
        return self.part(CLIENT_PORT)

    @client_port.setter
    def client_port(self, str port not None):
        self.change(CLIENT_PORT, port)

    @property
    def scheme(self):
        """http or https."""
        return self.part(SCHEME)

    @scheme.setter
    def scheme(self, str scheme not None):
        self.change(SCHEME, scheme)

    @property
    def host(self):
        """The Host field."""
        return self.part(HOST)

    @host.setter
    def host(self, str host not None):
        self.change(HOST, host)

    @property
    def server_port(self):
        return self.part(LOCAL_PORT)

    @server_port.setter
    def server_port(self, str port not None):
        self.change(LOCAL_PORT, port)


cdef class HeadRequest(Request):
    """HeadRequest(data, client, port="", place=("localhost", "")): `data` is a head, which may be cut off;
    `place` is Listener.place. `keeps` says of a field in which a proxy speaks of its client, by its name,
    whether it counts; none does by default. With `refused` the bytes may be no request: its parts are those
    of the request line, or else it has an unread line."""

    def __init__(self, bytes data not None, str client not None, str port="",
            tuple place=("localhost", ""), *, keeps=None, bint secure=False, bint refused=False):
        cdef head_limits limits
        cdef const char* start
        cdef long line
        limits.line = limits.total = 1 << 30
        limits.headers = 1 << 30
        data = data[:REFUSED_BYTES] if refused else data
        self.data = data
        self.keeps = keeps
        self.parts = {
            SCHEME: "https" if secure else "http", CLIENT: client, CLIENT_PORT: port,
            LOCAL_NAME: place[0], LOCAL_PORT: place[1]}
        start = data
        line = scan_line(start, len(data), &limits, &self.found)
        self.found.header_count = 0
        if line <= 0:
            self.parts[UNREAD_LINE] = first_line(data)
        elif not refused:
            scan_fields(start, len(data), line, &limits, &self.found)

    cdef object part(self, Part part):
        cdef const char* data = self.data
        if part == LOCAL_PORT and not self.parts[part]:
            return "443" if self.parts[SCHEME] == "https" else "80"
        if part == HOST:
            return self.get("host", K_HOST)
        if part in self.parts or UNREAD_LINE in self.parts:
            return self.parts.get(part)
        if part == METHOD:
            return data[self.found.method:self.found.method + self.found.method_size].decode("latin-1")
        if part == ROOT_PATH:
            return ""
        if part == PATH:
            return decode_path(data + self.found.path, self.found.path_size).decode("latin-1") or "/"
        if part == QUERY:
            return data[self.found.query:self.found.query + self.found.query_size].decode("latin-1")
        if part == VERSION:
            return "HTTP/2.0" if self.found.minor == HTTP_2 else f"HTTP/1.{self.found.minor}"
        return None

    cdef int change(self, Part part, object value) except -1:
        self.parts[part] = value
        return 0

    cdef object get(self, str name, int known):
        if name == "host" and HOST in self.parts:
            return self.parts[HOST]
        for one, value in self.fields():
            if one == name:
                return value
        return None

    cdef list fields(self):
        cdef const char* data = self.data
        cdef head_header* header
        cdef dict joined = {}
        cdef int i
        for i in range(self.found.header_count):
            header = &self.found.headers[i]
            if header.known == HEAD_DROPPED:
                continue
            name = data[header.name:header.name + header.name_size].lower().decode("latin-1")
            if is_forwarding(name) and (self.keeps is None or not self.keeps(name)):
                continue
            value = data[header.value:header.value + header.value_size].decode("latin-1")
            if name in joined:
                value = f"{joined[name]}{'; ' if name == 'cookie' else ','}{value}"
            joined[name] = value
        if self.found.authority_size:
            joined["host"] = data[
                self.found.authority:self.found.authority + self.found.authority_size].decode("latin-1")
        return list(joined.items())


cdef str first_line(bytes data):
    """Of bytes that are no request."""
    line, newline, _ = data.lstrip(b"\r\n").partition(b"\n")
    return line.rstrip(b"\r").decode("latin-1") + ("" if newline or len(data) < REFUSED_BYTES else "...")
