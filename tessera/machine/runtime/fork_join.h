/* Fork-join threads: the pool behind ThreadPool and inside every ahead-of-time artifact. */
#ifndef TESSERA_RUNTIME_FORK_JOIN_H_
#define TESSERA_RUNTIME_FORK_JOIN_H_

#include <stdint.h>

#include "tessera/machine/runtime/abi.h"
#include "tessera/machine/target/processors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_pool tsr_pool;

typedef struct tsr_pool_options {
  int32_t threads;    /* with the caller; less than 1 counts as 1 */
  int32_t processors; /* that the process may keep busy; with more threads nobody spins */
  int64_t linger_ns;  /* how long workers spin after a run before they sleep */
  const int32_t*
      pin; /* worker i on pin[i % pin_count]; NULL: where the system likes; outlives the pool */
  int32_t pin_count;
} tsr_pool_options;

/* NULL: no memory. The pool is smaller than asked when the system refuses to start more threads. */
TSR_INTERNAL tsr_pool* tsr_pool_create(const tsr_pool_options* options);
TSR_INTERNAL void tsr_pool_destroy(tsr_pool* pool);
TSR_INTERNAL int32_t tsr_pool_threads(const tsr_pool* pool);
TSR_INTERNAL tsr_host* tsr_pool_host(tsr_pool* pool); /* for code that has no loop in a loop */

/* Runs all of [0, n). One caller at a time, and never from inside a body. */
TSR_INTERNAL void tsr_pool_loop(tsr_pool* pool, tsr_body body, void* closure, int64_t n);

/* Around a run of many loops: until the end, workers wait for the next loop awake. Calls nest and
 * may come from several threads. */
TSR_INTERNAL void tsr_pool_begin(tsr_pool* pool);
TSR_INTERNAL void tsr_pool_end(tsr_pool* pool);

/* Workers that sleep now. */
TSR_INTERNAL int32_t tsr_pool_asleep(const tsr_pool* pool);

#ifdef __cplusplus
}
#endif
#endif
