/* Which processors a process may use, best first, and how many threads they are worth. C, because
 * every ahead-of-time artifact contains it too. */
#ifndef TESSERA_TARGET_PROCESSORS_H_
#define TESSERA_TARGET_PROCESSORS_H_

#include <stdint.h>

/* An artifact is one translation unit and keeps its functions to itself; the build of Tessera's own
 * libraries defines it as extern. */
#ifndef TSR_INTERNAL
#ifdef __cplusplus
#define TSR_INTERNAL extern
#else
#define TSR_INTERNAL static __attribute__((unused))
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Kernel numbers of the processors in the calling thread's mask, ascending, at most `capacity`;
 * returns how many, at least 1 (0 alone when the kernel does not tell). */
TSR_INTERNAL int32_t tsr_allowed_processors(int32_t* cpus, int32_t capacity);

/* Sorts `cpus` by what a thread gains there: one of each core before the second thread of any,
 * fast cores before slow ones. Returns how many of the first are cores worth a thread of their own:
 * no sibling of an earlier one and at least half as fast as the fastest. `root` stands before /sys;
 * "" is the machine itself. */
TSR_INTERNAL int32_t tsr_order_processors(const char* root, int32_t* cpus, int32_t count);

/* Whole processors that the control groups of the process pay for (cpu.max of version 2,
 * cpu.cfs_quota_us of version 1, the least of all levels), at least 1; 0: no limit. `root` stands
 * before /proc and /sys. */
TSR_INTERNAL int32_t tsr_processor_quota(const char* root);

/* Bytes that the control groups of the process may use (memory.max of version 2,
 * memory.limit_in_bytes of version 1, the least of all levels); 0: no limit. */
TSR_INTERNAL int64_t tsr_memory_limit(const char* root);

/* The number of threads to start when nobody says: one a core, two where there are two processors
 * at all, no more than the quota (0: none). */
TSR_INTERNAL int32_t tsr_default_threads(int32_t allowed, int32_t cores, int32_t quota);

#ifdef __cplusplus
}
#endif
#endif
