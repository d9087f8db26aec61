/* The interposer of dlopen: a library may load plug-ins that are to be patched, too, and call them at once.

   Fact: the dynamic linker looks for a name without a slash, and for $ORIGIN, where the caller's own file
   says (RUNPATH); the caller is the object to which its call returns. Danger: for a call from here that is
   ours. Decision: such a call is handed on as the last step, so that it returns to the library, and the look
   comes with the next wait. Price: the first wait in such a plug-in may hold the thread. Guarded by
   tests/patches/test_native.py::test_plug_in_is_found_where_the_library_says. */

#include "interpose.h"

#include <dlfcn.h>
#include <string.h>

#if defined __GNUC__ && !defined __clang__
#define LAST_STEP __attribute__((optimize("O2"))) /* a jump, in debug builds as well */
#else
#define LAST_STEP
#endif

LAST_STEP static void *interposed_dlopen(const char *path, int mode) {
    if (path == NULL || mode & RTLD_NOLOAD || !interpose_has_loop())
        return dlopen(path, mode);
    if (strchr(path, '/') == NULL || strchr(path, '$')) {
        interpose_look_is_due = 1;
        return dlopen(path, mode);
    }
    void *loaded = dlopen(path, mode);
    if (loaded != NULL)
        interpose_loaded();
    return loaded;
}

const interposer loading_calls[] = {
    {"dlopen", interposed_dlopen, dlopen},
    {NULL, NULL, NULL},
};
