/* How a loop runs.
 *
 * It is cut into parts, and each of the first workers owns a share of neighbouring parts: the same
 * share of the next loop of that size, so that a core finds its data in its caches. A worker claims
 * the parts of its own share one by one, then those that are left in the shares of others. The
 * shares live on cache lines of their own; no counter is touched by everybody.
 *
 * A claim is a compare-and-swap of {number of the loop, next part}. The number makes the claims of
 * a worker that comes too late fail, so nobody has to enter or leave a loop, and a worker which the
 * system has not scheduled delays nobody: its share is claimed by the others. A loop ends when the
 * parts that the workers say they have done, each on a line of its own, add up to all.
 *
 * Whoever waits spins first, as long as a run is under way (tsr_pool_begin) for milliseconds,
 * otherwise shortly, and then sleeps on a futex of its own. Sleepers are woken as a tree: each
 * wakes some of those that its waker would still have had to wake. Nobody spins when the process
 * has more busy threads than processors, and hardly when another process wants the processor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tessera/machine/runtime/fork_join.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  /* Of two lines: Intel's prefetcher and Apple's cores fetch pairs. */
  TSR_LINE = 128, /* also in TSR_OWN_LINE */
  TSR_MAX_THREADS = 4096,
  TSR_PARTS_BITS = 20,         /* of a word that holds a loop's number and a count of parts */
  TSR_SHARE_PARTS = 8,         /* parts of one share of a long loop */
  TSR_LOOKS = 16,              /* between two readings of the clock */
  TSR_RUN_SPIN_NS = 5000000,   /* during a run: a serial kernel may take that long */
  TSR_CROWDED_SPIN_NS = 10000, /* when others want the processor */
  TSR_PREEMPTED_NS = 100000,   /* between two looks: this thread may have been off its processor */
  TSR_CROWDED_NS = 20000000    /* how long one such event is remembered */
};

#define TSR_PARTS_MASK ((UINT64_C(1) << TSR_PARTS_BITS) - 1)
#define TSR_PARKED UINT32_MAX

#define TSR_OWN_LINE __attribute__((aligned(128)))

typedef struct tsr_worker {
  TSR_OWN_LINE uint64_t claim; /* {loop, next part} of the share; written by whoever claims */
  TSR_OWN_LINE uint64_t done;  /* {loop, parts done}; written by the worker */
  /* 0: awake; TSR_PARKED; else woken, to wake the workers between this and that one. */
  TSR_OWN_LINE uint32_t park;
  int32_t index;
  struct tsr_pool* pool;
  pthread_t thread;
  int64_t crowded_until_ns;
  long preemptions; /* by other threads, when last looked at */
} tsr_worker;

struct tsr_pool {
  tsr_host host; /* first: the host of generated code is the pool */
  tsr_worker* workers;
  int64_t linger_ns;
  int32_t threads, processors;
  int32_t spins; /* 0: more threads than processors */
  const int32_t* pin;
  int32_t pin_count;
  /* The loop; body to count are written by the caller when all parts of the last one are done. */
  TSR_OWN_LINE uint64_t word; /* {number, parts}; no parts: stop */
  tsr_body body;
  void* closure;
  int64_t count;
  uint32_t caller_sleeps;
  TSR_OWN_LINE int32_t runs; /* begun and not ended */
  int32_t asleep;            /* workers */
};

/* Threads of all pools of this process that are in a run. */
static int32_t tsr_busy_threads;

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

static void tsr_sleep_while(uint32_t* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void tsr_wake_sleeper(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint64_t tsr_loop_of(uint64_t word) { return word >> TSR_PARTS_BITS; }

static int64_t tsr_parts_of(uint64_t word) { return (int64_t)(word & TSR_PARTS_MASK); }

static int32_t tsr_shares(const tsr_pool* pool, uint64_t word) {
  const int64_t parts = tsr_parts_of(word);
  return parts < pool->threads ? (int32_t)parts : pool->threads;
}

/* The next part of a share of the loop `word`, now the calling worker's to run; -1: none left. */
static int64_t tsr_claim(tsr_pool* pool, uint64_t word, int32_t share) {
  const int64_t parts = tsr_parts_of(word), shares = tsr_shares(pool, word);
  const uint64_t loop = tsr_loop_of(word), first = (uint64_t)(parts * share / shares),
                 end = (uint64_t)(parts * (share + 1) / shares);
  uint64_t* claim = &pool->workers[share].claim;
  uint64_t seen = __atomic_load_n(claim, __ATOMIC_RELAXED), next;
  do {
    if (tsr_loop_of(seen) > loop) return -1;
    next = tsr_loop_of(seen) == loop ? seen & TSR_PARTS_MASK : first;
    if (next >= end) return -1;
  } while (!__atomic_compare_exchange_n(claim, &seen, loop << TSR_PARTS_BITS | (next + 1), 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return (int64_t)next;
}

static int64_t tsr_part_begin(int64_t n, int64_t parts, int64_t part) {
  return n / parts * part + n % parts * part / parts;
}

static void tsr_run_part(tsr_pool* pool, uint64_t word, int64_t part, int32_t worker) {
  const int64_t n = pool->count, parts = tsr_parts_of(word);
  pool->body(pool->closure, tsr_part_begin(n, parts, part), tsr_part_begin(n, parts, part + 1),
             worker);
}

/* Sequentially consistent with the counts: of the workers that finish together, the last in that
 * order sees all of them. */
static int tsr_loop_done(tsr_pool* pool, uint64_t word) {
  const uint64_t loop = tsr_loop_of(word);
  const int32_t shares = tsr_shares(pool, word);
  int64_t done = 0;
  int32_t i;
  for (i = 0; i < shares; ++i) {
    const uint64_t seen = __atomic_load_n(&pool->workers[i].done, __ATOMIC_SEQ_CST);
    if (tsr_loop_of(seen) == loop) done += tsr_parts_of(seen);
  }
  return done == tsr_parts_of(word);
}

static void tsr_publish(tsr_pool* pool, uint64_t word, int32_t worker, int64_t done) {
  const uint64_t loop = tsr_loop_of(word);
  __atomic_store_n(&pool->workers[worker].done, loop << TSR_PARTS_BITS | (uint64_t)done,
                   __ATOMIC_SEQ_CST);
  if (worker != 0 && __atomic_load_n(&pool->caller_sleeps, __ATOMIC_SEQ_CST) != 0 &&
      tsr_loop_done(pool, word) && __atomic_exchange_n(&pool->caller_sleeps, 0, __ATOMIC_ACQ_REL)) {
    tsr_wake_sleeper(&pool->caller_sleeps);
  }
}

/* All that this worker can get of a loop. */
static void tsr_serve(tsr_pool* pool, uint64_t word, int32_t worker) {
  const int32_t shares = tsr_shares(pool, word);
  int64_t part, done = 0;
  int32_t i, share;
  if (worker >= shares) return;
  while ((part = tsr_claim(pool, word, worker)) >= 0) {
    tsr_run_part(pool, word, part, worker);
    ++done;
  }
  if (done > 0) tsr_publish(pool, word, worker, done);
  for (i = 1; i < shares && __atomic_load_n(&pool->word, __ATOMIC_RELAXED) == word; ++i) {
    share = worker + i < shares ? worker + i : worker + i - shares;
    while ((part = tsr_claim(pool, word, share)) >= 0) {
      tsr_run_part(pool, word, part, worker);
      tsr_publish(pool, word, worker, ++done);
    }
  }
}

/* Wakes the sleepers among workers [begin, end), handing a quarter of the rest to each: a sleeper
 * takes several times as long to come as to be called. */
static void tsr_wake_range(tsr_pool* pool, int32_t begin, int32_t end) {
  while (begin < end) {
    uint32_t* park = &pool->workers[begin].park;
    const int32_t middle = begin + 1 + (end - begin - 1) / 4;
    uint32_t expected = TSR_PARKED;
    if (__atomic_load_n(park, __ATOMIC_SEQ_CST) == TSR_PARKED &&
        __atomic_compare_exchange_n(park, &expected, (uint32_t)middle, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      __atomic_fetch_sub(&pool->asleep, 1, __ATOMIC_RELAXED);
      tsr_wake_sleeper(park);
      begin = middle;
    } else {
      ++begin;
    }
  }
}

/* When a thread began to wait, and since when without a run; 0: not yet. */
typedef struct tsr_wait {
  int64_t begin_ns, idle_ns, look_ns;
} tsr_wait;

static long tsr_preemptions(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* Whether somebody else wants the processor of a waiting thread. */
static int tsr_crowded(tsr_worker* self, int64_t now, int64_t last_look) {
  /* A long gap may also be a hypervisor's doing, whom it does not help when this thread sleeps. */
  if (self->index > 0 && now - last_look > TSR_PREEMPTED_NS) {
    const long preemptions = tsr_preemptions();
    if (preemptions != self->preemptions) self->crowded_until_ns = now + TSR_CROWDED_NS;
    self->preemptions = preemptions;
  }
  return now < self->crowded_until_ns ||
         __atomic_load_n(&tsr_busy_threads, __ATOMIC_RELAXED) > self->pool->processors;
}

/* Whether to go on spinning; called after every few looks. */
static int tsr_keep_spinning(tsr_worker* self, tsr_wait* wait) {
  const tsr_pool* pool = self->pool;
  int64_t now, last_look;
  if (!pool->spins) return 0;
  now = tsr_now_ns();
  if (wait->begin_ns == 0) wait->begin_ns = wait->look_ns = now;
  last_look = wait->look_ns;
  wait->look_ns = now;
  if (tsr_crowded(self, now, last_look)) {
    sched_yield();
    return now - wait->begin_ns < TSR_CROWDED_SPIN_NS;
  }
  if (__atomic_load_n(&pool->runs, __ATOMIC_RELAXED) > 0) {
    wait->idle_ns = 0;
    return now - wait->begin_ns < TSR_RUN_SPIN_NS;
  }
  if (wait->idle_ns == 0) wait->idle_ns = now;
  return now - wait->idle_ns < pool->linger_ns;
}

/* Waits for a loop after number `last`. */
static uint64_t tsr_await_loop(tsr_worker* self, uint64_t last) {
  tsr_pool* pool = self->pool;
  tsr_wait wait = {0, 0, 0};
  uint64_t word;
  for (;;) {
    uint32_t woken = TSR_PARKED;
    int i;
    do {
      for (i = 0; i < TSR_LOOKS; ++i) {
        word = __atomic_load_n(&pool->word, __ATOMIC_ACQUIRE);
        if (tsr_loop_of(word) != last) return word;
        if (pool->spins) tsr_relax();
      }
    } while (tsr_keep_spinning(self, &wait));
    /* Sequentially consistent, as is the word: either the caller sees this worker asleep, or the
     * worker sees the loop before it sleeps. */
    __atomic_fetch_add(&pool->asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&self->park, TSR_PARKED, __ATOMIC_SEQ_CST);
    if (tsr_loop_of(__atomic_load_n(&pool->word, __ATOMIC_SEQ_CST)) != last &&
        __atomic_compare_exchange_n(&self->park, &woken, 0, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      __atomic_fetch_sub(&pool->asleep, 1, __ATOMIC_RELAXED);
      continue;
    }
    while ((woken = __atomic_load_n(&self->park, __ATOMIC_ACQUIRE)) == TSR_PARKED) {
      tsr_sleep_while(&self->park, TSR_PARKED);
    }
    __atomic_store_n(&self->park, 0, __ATOMIC_RELAXED);
    tsr_wake_range(pool, self->index + 1, (int32_t)woken);
    wait.begin_ns = wait.idle_ns = 0;
  }
}

static void* tsr_work(void* argument) {
  tsr_worker* self = (tsr_worker*)argument;
  tsr_pool* pool = self->pool;
  uint64_t word = 0;
  self->preemptions = tsr_preemptions();
  if (pool->pin) {
    const int32_t cpu = pool->pin[self->index % pool->pin_count];
    cpu_set_t mask;
    CPU_ZERO(&mask);
    /* A refusal leaves the thread where the system puts it: slower at worst. */
    if (cpu < CPU_SETSIZE) {
      CPU_SET((size_t)cpu, &mask);
      sched_setaffinity(0, sizeof mask, &mask);
    }
  }
  for (;;) {
    word = tsr_await_loop(self, tsr_loop_of(word));
    if (tsr_parts_of(word) == 0) return NULL;
    tsr_serve(pool, word, self->index);
  }
}

static void tsr_await_workers(tsr_pool* pool, uint64_t word) {
  tsr_wait wait = {0, 0, 0};
  int i;
  do {
    for (i = 0; i < TSR_LOOKS; ++i) {
      if (tsr_loop_done(pool, word)) return;
      if (pool->spins) tsr_relax();
    }
  } while (tsr_keep_spinning(&pool->workers[0], &wait));
  for (;;) {
    __atomic_store_n(&pool->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    if (tsr_loop_done(pool, word)) break;
    tsr_sleep_while(&pool->caller_sleeps, 1);
  }
  __atomic_store_n(&pool->caller_sleeps, 0, __ATOMIC_RELAXED);
}

static uint64_t tsr_start_loop(tsr_pool* pool, int64_t parts) {
  const uint64_t loop = tsr_loop_of(__atomic_load_n(&pool->word, __ATOMIC_RELAXED)) + 1;
  const uint64_t word = loop << TSR_PARTS_BITS | (uint64_t)parts;
  __atomic_store_n(&pool->word, word, __ATOMIC_SEQ_CST);
  return word;
}

TSR_INTERNAL void tsr_pool_loop(tsr_pool* pool, tsr_body body, void* closure, int64_t n) {
  const int64_t most = (int64_t)pool->threads * TSR_SHARE_PARTS;
  const int own_run = __atomic_load_n(&pool->runs, __ATOMIC_RELAXED) == 0;
  uint64_t word;
  if (n <= 0) return;
  if (n == 1 || pool->threads == 1) {
    body(closure, 0, n, 0);
    return;
  }
  if (own_run) tsr_pool_begin(pool);
  pool->body = body;
  pool->closure = closure;
  pool->count = n;
  /* Few iterations are parts of their own; rounding would give some workers twice the others'. */
  word = tsr_start_loop(pool, n <= 2 * most ? n : most);
  if (__atomic_load_n(&pool->asleep, __ATOMIC_SEQ_CST) > 0) {
    tsr_wake_range(pool, 1, tsr_shares(pool, word));
  }
  tsr_serve(pool, word, 0);
  tsr_await_workers(pool, word);
  if (own_run) tsr_pool_end(pool);
}

TSR_INTERNAL void tsr_pool_begin(tsr_pool* pool) {
  if (__atomic_fetch_add(&pool->runs, 1, __ATOMIC_RELAXED) == 0) {
    __atomic_fetch_add(&tsr_busy_threads, pool->threads, __ATOMIC_RELAXED);
  }
}

TSR_INTERNAL void tsr_pool_end(tsr_pool* pool) {
  if (__atomic_fetch_sub(&pool->runs, 1, __ATOMIC_RELAXED) == 1) {
    __atomic_fetch_sub(&tsr_busy_threads, pool->threads, __ATOMIC_RELAXED);
  }
}

TSR_INTERNAL int32_t tsr_pool_threads(const tsr_pool* pool) { return pool->threads; }

TSR_INTERNAL tsr_host* tsr_pool_host(tsr_pool* pool) { return &pool->host; }

TSR_INTERNAL int32_t tsr_pool_asleep(const tsr_pool* pool) {
  return __atomic_load_n(&pool->asleep, __ATOMIC_RELAXED);
}

TSR_INTERNAL void tsr_pool_destroy(tsr_pool* pool) {
  int32_t i;
  if (!pool) return;
  tsr_start_loop(pool, 0);
  tsr_wake_range(pool, 1, pool->threads);
  for (i = 1; i < pool->threads; ++i) pthread_join(pool->workers[i].thread, NULL);
  free(pool->workers);
  free(pool);
}

static void tsr_host_loop(tsr_host* host, tsr_body body, void* closure, int64_t n) {
  tsr_pool_loop((tsr_pool*)host, body, closure, n);
}

static void* tsr_allocate_lines(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, TSR_LINE, bytes) != 0) return NULL;
  return memset(memory, 0, bytes);
}

TSR_INTERNAL tsr_pool* tsr_pool_create(const tsr_pool_options* options) {
  tsr_pool* pool = (tsr_pool*)tsr_allocate_lines(sizeof *pool);
  int32_t threads = options->threads < 1 ? 1 : options->threads, i;
  if (!pool) return NULL;
  if (threads > TSR_MAX_THREADS) threads = TSR_MAX_THREADS;
  pool->workers = (tsr_worker*)tsr_allocate_lines((size_t)threads * sizeof *pool->workers);
  if (!pool->workers) {
    free(pool);
    return NULL;
  }
  pool->linger_ns = options->linger_ns;
  pool->processors = options->processors;
  pool->pin = options->pin;
  pool->pin_count = options->pin_count;
  pool->spins = threads <= options->processors;
  for (i = 0; i < threads; ++i) {
    pool->workers[i].pool = pool;
    pool->workers[i].index = i;
  }
  for (i = 1; i < threads; ++i) {
    if (pthread_create(&pool->workers[i].thread, NULL, tsr_work, &pool->workers[i]) != 0) break;
  }
  /* Workers look at it only in a loop, and there is none yet. */
  pool->threads = i;
  pool->host.parallel_for = tsr_host_loop;
  pool->host.num_workers = i;
  return pool;
}
