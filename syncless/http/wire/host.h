/* Checks the host that a request names. The manual of host.c, which knows as little as head.c. */

#ifndef SYNCLESS_HOST_H
#define SYNCLESS_HOST_H

/* Whether the bytes are uri-host [":" port] (RFC 3986, 3.2.2 and 3.2.3; RFC 9110, 7.2), possibly empty. */
int host_is_valid(const char *p, const char *end);

#endif
