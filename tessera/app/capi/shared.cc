// libtessera.so consists of the libraries it links; a CMake target needs one source of its own.
#include "tessera/app/capi/include/tessera/tessera.h"

static_assert(TSR_API_VERSION == 11, "a new version keeps serving the older ones");
