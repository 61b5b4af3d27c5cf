// The digest that artifacts compute over their weights (runtime/digest.c), for the compiler.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint64_t tessera_artifact_digest(const void* bytes, uint64_t count);

#ifdef __cplusplus
}
#endif
