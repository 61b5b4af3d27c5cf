#include "tessera/backend/artifact/digest.h"

#include "tessera/backend/artifact/runtime/digest.c"

uint64_t tessera_artifact_digest(const void* bytes, uint64_t count) {
  return tsr_digest((const unsigned char*)bytes, count);
}
