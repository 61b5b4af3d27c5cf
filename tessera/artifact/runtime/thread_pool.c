/* Fork-join threads for one context: workers spin for a while after each loop, then sleep. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tessera/artifact/runtime/types.h"

enum { TSR_SPIN_NS = 50000, TSR_MAX_THREADS = 4096 };

/* One atomic word says everything about the current loop: workers inside it (the caller not
 * counted), whether more may enter, whether the caller sleeps, and the number of the loop. The
 * caller closes the word when no iterations are left and waits only for those inside, so that a
 * worker which was not scheduled yet delays nobody. */
#define TSR_INSIDE UINT64_C(0xffff)
#define TSR_LOOP_OPEN (UINT64_C(1) << 16)
#define TSR_CALLER_SLEEPS (UINT64_C(1) << 17)
#define TSR_LOOP_SHIFT 18

typedef struct tsr_pool tsr_pool;

typedef struct tsr_worker {
  tsr_pool* pool;
  pthread_t thread;
  int32_t index;
} tsr_worker;

struct tsr_pool {
  tsr_host host; /* first: the host of generated code is the pool */
  tsr_body body; /* body to chunk: written by the caller while nobody is inside */
  void* closure;
  int64_t count, chunk;
  int64_t spin_ns;
  int32_t num_workers;
  tsr_worker* workers;
  pthread_mutex_t mutex;
  pthread_cond_t wake, left;
  char pad0[128];
  uint64_t word;
  char pad1[120];
  int64_t next;
  char pad2[120];
  int32_t asleep, stop;
};

static void tsr_relax(void) {
#if defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores */
#else
  __asm__ volatile("pause" ::: "memory");
#endif
}

static int64_t tsr_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int tsr_none_inside(tsr_pool* pool) {
  return (__atomic_load_n(&pool->word, __ATOMIC_ACQUIRE) & TSR_INSIDE) == 0;
}

static int tsr_has_news(tsr_pool* pool, uint64_t last_loop) {
  const uint64_t now = __atomic_load_n(&pool->word, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) return 1;
  return (now & TSR_LOOP_OPEN) != 0 && now >> TSR_LOOP_SHIFT != last_loop;
}

/* 0 when the time to spin passed before there was news (a worker) or nobody inside (the caller). */
static int tsr_spin(tsr_pool* pool, int is_caller, uint64_t last_loop) {
  int64_t end = 0;
  for (;;) {
    int i;
    for (i = 0; i < 32; ++i) { /* the clock costs as much as a few looks */
      if (is_caller ? tsr_none_inside(pool) : tsr_has_news(pool, last_loop)) return 1;
      if (pool->spin_ns == 0) return 0;
      tsr_relax();
    }
    if (end == 0) end = tsr_now_ns() + pool->spin_ns;
    if (tsr_now_ns() >= end) return 0;
  }
}

static void tsr_run_chunks(tsr_pool* pool, int32_t worker) {
  const int64_t count = pool->count, chunk = pool->chunk;
  for (;;) {
    const int64_t begin = __atomic_fetch_add(&pool->next, chunk, __ATOMIC_RELAXED);
    if (begin >= count) return;
    pool->body(pool->closure, begin, begin + chunk < count ? begin + chunk : count, worker);
  }
}

/* Enters the open loop, if there is one that this worker has not served. */
static void tsr_serve(tsr_pool* pool, int32_t worker, uint64_t* last_loop) {
  uint64_t now = __atomic_load_n(&pool->word, __ATOMIC_ACQUIRE), before;
  do {
    if ((now & TSR_LOOP_OPEN) == 0 || now >> TSR_LOOP_SHIFT == *last_loop) return;
  } while (!__atomic_compare_exchange_n(&pool->word, &now, now + 1, 1, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
  *last_loop = now >> TSR_LOOP_SHIFT;
  tsr_run_chunks(pool, worker);
  before = __atomic_fetch_sub(&pool->word, 1, __ATOMIC_ACQ_REL);
  if ((before & TSR_INSIDE) == 1 && (before & TSR_CALLER_SLEEPS) != 0) {
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->left);
    pthread_mutex_unlock(&pool->mutex);
  }
}

static void* tsr_work(void* argument) {
  tsr_worker* self = (tsr_worker*)argument;
  tsr_pool* pool = self->pool;
  uint64_t last_loop = 0;
  while (!__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) {
    if (!tsr_spin(pool, 0, last_loop)) {
      /* Sequentially consistent, as is the word: either the caller sees this worker asleep, or the
       * worker sees the loop before it sleeps. */
      __atomic_fetch_add(&pool->asleep, 1, __ATOMIC_SEQ_CST);
      pthread_mutex_lock(&pool->mutex);
      while (!tsr_has_news(pool, last_loop)) pthread_cond_wait(&pool->wake, &pool->mutex);
      pthread_mutex_unlock(&pool->mutex);
      __atomic_fetch_sub(&pool->asleep, 1, __ATOMIC_RELAXED);
    }
    tsr_serve(pool, self->index, &last_loop);
  }
  return NULL;
}

static void tsr_pool_wait(tsr_pool* pool) {
  const uint64_t closed = __atomic_fetch_and(&pool->word, ~TSR_LOOP_OPEN, __ATOMIC_ACQ_REL);
  if ((closed & TSR_INSIDE) == 0 || tsr_spin(pool, 1, 0)) return;
  pthread_mutex_lock(&pool->mutex);
  if ((__atomic_fetch_or(&pool->word, TSR_CALLER_SLEEPS, __ATOMIC_ACQ_REL) & TSR_INSIDE) != 0) {
    while (!tsr_none_inside(pool)) pthread_cond_wait(&pool->left, &pool->mutex);
  }
  pthread_mutex_unlock(&pool->mutex);
}

static void tsr_pool_parallel_for(tsr_host* host, tsr_body body, void* closure, int64_t n) {
  tsr_pool* pool = (tsr_pool*)host;
  uint64_t loop;
  if (n <= 0) return;
  if (n == 1 || pool->num_workers == 0) {
    body(closure, 0, n, 0);
    return;
  }
  pool->body = body;
  pool->closure = closure;
  pool->count = n;
  pool->chunk = n / (4 * (int64_t)host->num_workers);
  if (pool->chunk < 1) pool->chunk = 1;
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  loop = (__atomic_load_n(&pool->word, __ATOMIC_RELAXED) >> TSR_LOOP_SHIFT) + 1;
  __atomic_store_n(&pool->word, loop << TSR_LOOP_SHIFT | TSR_LOOP_OPEN, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST) > 0) {
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
  }
  tsr_run_chunks(pool, 0);
  tsr_pool_wait(pool);
}

static int32_t tsr_processors(void) {
  cpu_set_t set;
  long online;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set holds */
  return online > 0 ? (int32_t)online : 1;
}

static void tsr_pool_destroy(tsr_pool* pool) {
  int32_t i;
  if (!pool) return;
  pthread_mutex_lock(&pool->mutex);
  __atomic_store_n(&pool->stop, 1, __ATOMIC_SEQ_CST);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
  for (i = 0; i < pool->num_workers; ++i) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->left);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->mutex);
  free(pool->workers);
  free(pool);
}

/* threads: the caller included; 0: one per processor. The pool is smaller when the system refuses
 * to start more. NULL: no memory. */
static tsr_pool* tsr_pool_create(int32_t threads) {
  const int32_t processors = tsr_processors();
  tsr_pool* pool = (tsr_pool*)calloc(1, sizeof *pool);
  int32_t i;
  if (!pool) return NULL;
  if (threads <= 0) threads = processors;
  if (threads > TSR_MAX_THREADS) threads = TSR_MAX_THREADS;
  pool->workers = (tsr_worker*)calloc((size_t)threads, sizeof *pool->workers);
  if (!pool->workers) {
    free(pool);
    return NULL;
  }
  pool->spin_ns = threads > processors ? 0 : TSR_SPIN_NS;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->left, NULL);
  for (i = 1; i < threads; ++i) {
    tsr_worker* worker = &pool->workers[pool->num_workers];
    worker->pool = pool;
    worker->index = i;
    if (pthread_create(&worker->thread, NULL, tsr_work, worker) != 0) break;
    ++pool->num_workers;
  }
  pool->host.parallel_for = tsr_pool_parallel_for;
  pool->host.num_workers = pool->num_workers + 1;
  return pool;
}
