/* The hook of dlopen: a library may load plug-ins that are to be patched, too, and call them at once.

   The dynamic linker looks for a name without a slash where the caller's own file says (RUNPATH), and takes
   us for the caller. Plug-ins are loaded by their path. */

#include "hooks.h"

#include <dlfcn.h>

static void *hooked_dlopen(const char *path, int mode) {
    void *loaded = dlopen(path, mode);
    if (loaded != NULL && !(mode & RTLD_NOLOAD) && hook_has_loop())
        hook_loaded();
    return loaded;
}

const hook_row loading_hooks[] = {
    {"dlopen", hooked_dlopen, dlopen},
    {NULL, NULL, NULL},
};
