/* The binary interface of generated code: shared by JIT, ahead-of-time artifacts and the runtime.
 */
#ifndef TESSERA_RUNTIME_ABI_H_
#define TESSERA_RUNTIME_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs iterations [begin, end) of a parallel loop; worker < num_workers is unique among running
 * bodies. */
typedef void (*tsr_body)(void* closure, int64_t begin, int64_t end, int32_t worker);

/* What generated code needs from its host. `parallel_for` runs all of [0, n) and returns when done.
 */
typedef struct tsr_host {
  void (*parallel_for)(struct tsr_host* host, tsr_body body, void* closure, int64_t n);
  int32_t num_workers; /* at least 1 */
  void* state;
} tsr_host;

/* params: one pointer per Func parameter, 64-byte aligned. workspace: 64-byte aligned, at least
 * shared_bytes + num_workers * worker_bytes of the kernel's metadata. Returns 0. */
typedef int32_t (*tsr_kernel)(void* const* params, void* workspace, tsr_host* host);

#ifdef __cplusplus
}
#endif
#endif
