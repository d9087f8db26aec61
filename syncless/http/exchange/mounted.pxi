"""MountedApplications: several applications, of any kinds, each for the paths below a prefix.

The path decides, as the client means it: percent-encoded characters are decoded first. "/api" is the prefix
of /api and /api/x, not of /apix; the longest prefix wins. The applications must remember no heads
(Application(0)): each kind would keep objects that the others cannot use.
"""


cdef class MountedApplications(Application):
    """MountedApplications(mounts, pages, rest): by prefix, by the whole path, and for all other paths."""

    def __init__(self, mounts, pages, Application rest not None):
        Application.__init__(self, 0)
        longest_first = sorted(mounts.items(), key=lambda mount: -len(mount[0]))
        self.prefixes = [prefix.rstrip("/").encode() for prefix, _ in longest_first]
        self.applications = [application for _, application in longest_first]
        self.applications.append(rest)
        self.stays = all(application.stays for application in self.applications)
        self.some_stay = any(application.stays for application in self.applications)
        self.pages = {}
        for path, application in pages.items():
            self.pages[path.encode()] = len(self.applications)
            self.applications.append(application)

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef int mount = self.choose(incoming.data, incoming.found)
        cdef Application application = <Application> self.applications[mount]
        cdef Exchange exchange
        if self.away and application.stays:
            return None
        exchange = application.exchange(incoming)
        exchange.mount = mount
        return exchange

    cdef int choose(self, const char* data, const head* found) except -1:
        """Which of the applications."""
        cdef bytes path = PyBytes_FromStringAndSize(data + found.path, found.path_size)
        cdef bytes prefix
        cdef Py_ssize_t size
        cdef int i
        if found.escaped:
            path = decode_path(data + found.path, found.path_size)
        if self.pages:
            page = self.pages.get(path)
            if page is not None:
                return page
        for i in range(PyList_GET_SIZE(self.prefixes)):
            prefix = self.prefixes[i]
            size = PyBytes_GET_SIZE(prefix)
            if (
                PyBytes_GET_SIZE(path) >= size
                and memcmp(PyBytes_AS_STRING(path), PyBytes_AS_STRING(prefix), size) == 0
                and (PyBytes_GET_SIZE(path) == size or PyBytes_AS_STRING(path)[size] == c"/")
            ):
                return i
        return PyList_GET_SIZE(self.prefixes)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return (<Application> self.applications[exchange.mount]).take_back(exchange, fd)

    def close(self) -> None:
        """Let go of the objects kept for later requests."""
        for application in self.applications:
            application.close()
