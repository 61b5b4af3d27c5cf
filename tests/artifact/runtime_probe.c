#include "tests/artifact/runtime_probe.h"

#include "tessera/backend/artifact/runtime/context.c"

int probe_cpu_has(const char* name) { return tsr_cpu_has(name); }
uint64_t probe_digest(const void* bytes, uint64_t count) {
  return tsr_digest((const unsigned char*)bytes, count);
}

tsr_host* probe_pool_create(int32_t threads) { return tsr_pool_host(tsr_own_pool(threads)); }
void probe_pool_destroy(tsr_host* host) { tsr_pool_destroy((tsr_pool*)host); }

tsr_status probe_open(const tsr_program* program, const tsr_open_options* options,
                      tsr_context** context) {
  return tsr_open(program, options, context);
}
tsr_status probe_open_variant(const tsr_program* program, int32_t number, tsr_context** context) {
  return tsr_open_variant(program, number, NULL, context);
}
int64_t probe_memory_bytes(const tsr_context* context) { return tsr_memory_bytes(context); }
tsr_status probe_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                     void* memory) {
  return tsr_run(context, inputs, outputs, memory);
}
void probe_close(tsr_context* context) { tsr_close(context); }
