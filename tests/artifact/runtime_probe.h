// The artifacts' C runtime as functions that tests can call.
#pragma once

#include "tessera/backend/artifact/runtime/program.h"

#ifdef __cplusplus
extern "C" {
#endif

int probe_cpu_has(const char* name);
uint64_t probe_digest(const void* bytes, uint64_t count);

tsr_host* probe_pool_create(int32_t threads);
void probe_pool_destroy(tsr_host* host);

tsr_status probe_open(const tsr_program* program, const tsr_open_options* options,
                      tsr_context** context);
tsr_status probe_open_variant(const tsr_program* program, int32_t number, tsr_context** context);
int64_t probe_memory_bytes(const tsr_context* context);
tsr_status probe_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                     void* memory);
void probe_close(tsr_context* context);

#ifdef __cplusplus
}
#endif
