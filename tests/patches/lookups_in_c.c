/* Stands before getaddrinfo: names that begin with "slow" are asked for until a pipe ends, and one that begins
   with "system" fails for lack of descriptors. */

#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    char byte;
    (void)service;
    (void)found;
    if (hints && hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    if (strncmp(host, "slow", 4) == 0)
        while (read(atoi(getenv("LOOKUPS_END")), &byte, 1) > 0)
            continue;
    errno = EMFILE;
    return strncmp(host, "system", 6) == 0 ? EAI_SYSTEM : EAI_NONAME;
}
