/* Which fields of a request a handler sees: those that an application would (http/trust.py). See server.h. */

#include <string.h>
#include <sys/socket.h>

#include "names.h"
#include "server.h"

static int is_in(const struct network *network, const uint8_t *bytes, size_t size) {
    size_t i;
    if (network->size != size)
        return 0;
    for (i = 0; i < size; i++)
        if ((bytes[i] & network->mask[i]) != network->base[i])
            return 0;
    return 1;
}

/* Whether the peer is a trusted proxy. IPv4 inside IPv6 counts as IPv4. */
static int is_trusted(const struct trust *trust, const struct address *address) {
    const uint8_t *bytes = address->bytes;
    size_t size = address->family == AF_INET ? 4 : 16;
    int i;
    if (trust->everybody)
        return 1;
    if (address->family != AF_INET && address->family != AF_INET6)
        return trust->unix_sockets;
    if (size == 16 && is_mapped(address)) {
        bytes += 12;
        size = 4;
    }
    for (i = 0; i < trust->network_count; i++)
        if (is_in(&trust->networks[i], bytes, size))
            return 1;
    return 0;
}

/* `known`: as in struct head_header. */
int is_shown(const struct trust *trust, const struct address *address, int known, const char *name,
             size_t size) {
    if (known == HEAD_DROPPED)
        return 0;
    if (known == HEAD_UNKNOWN)
        return size < trust->forwarding.size ||
               !same_name(name, trust->forwarding.data, trust->forwarding.size);
    return trust->known[known] == SHOWN ||
           (trust->known[known] == SHOWN_IF_TRUSTED && is_trusted(trust, address));
}
