#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tessera/machine/target/processors.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TSR_MOST_PROCESSORS = 1 << 18, TSR_PATH_BYTES = 4096 };

TSR_INTERNAL int32_t tsr_allowed_processors(int32_t* cpus, int32_t capacity) {
  int32_t slots, count = 0, cpu;
  /* Doubled until the kernel accepts it: there may be more processors than a plain set holds. */
  for (slots = CPU_SETSIZE; slots <= TSR_MOST_PROCESSORS && count == 0; slots *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE((size_t)slots);
    cpu_set_t* set = CPU_ALLOC((size_t)slots);
    if (!set) break;
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (cpu = 0; cpu < slots && count < capacity; ++cpu) {
        if (CPU_ISSET_S((size_t)cpu, bytes, set)) cpus[count++] = cpu;
      }
    }
    CPU_FREE(set);
  }
  if (count == 0) cpus[count++] = 0;
  return count;
}

/* The first line of a file, without its end; 0 when there is none. */
static int tsr_read_line(const char* path, char* line, int bytes) {
  FILE* file = fopen(path, "re");
  int ok;
  if (!file) return 0;
  ok = fgets(line, bytes, file) != NULL;
  fclose(file);
  if (ok) line[strcspn(line, "\n")] = '\0';
  return ok;
}

static int64_t tsr_read_number(const char* path) {
  char line[64];
  return tsr_read_line(path, line, sizeof line) ? strtoll(line, NULL, 10) : 0;
}

/* Whether "0-3,8" holds cpu. */
static int tsr_list_holds(const char* list, int32_t cpu) {
  while (*list) {
    char* end;
    const long first = strtol(list, &end, 10);
    long last = first;
    if (end == list) return 0;
    if (*end == '-') {
      list = end + 1;
      last = strtol(list, &end, 10);
      if (end == list) return 0;
    }
    if (first <= cpu && cpu <= last) return 1;
    if (*end != ',') return 0;
    list = end + 1;
  }
  return 0;
}

typedef struct tsr_processor {
  int32_t cpu;
  int32_t sibling; /* threads of the same core before this one */
  int64_t speed;   /* any unit; 0: unknown; then a class from 0 to 4, 4 as fast as the fastest */
} tsr_processor;

static int tsr_compare_processors(const void* left, const void* right) {
  const tsr_processor* a = (const tsr_processor*)left;
  const tsr_processor* b = (const tsr_processor*)right;
  if (a->sibling != b->sibling) return a->sibling < b->sibling ? -1 : 1;
  if (a->speed != b->speed) return a->speed > b->speed ? -1 : 1;
  return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

static void tsr_describe_processor(const char* root, const int32_t* cpus, int32_t at,
                                   tsr_processor* p) {
  char path[TSR_PATH_BYTES], list[1024];
  int32_t i;
  p->cpu = cpus[at];
  p->sibling = 0;
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
           (int)p->cpu);
  if (tsr_read_line(path, list, sizeof list)) {
    for (i = 0; i < at; ++i) p->sibling += tsr_list_holds(list, cpus[i]);
  }
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cpu_capacity", root, (int)p->cpu);
  p->speed = tsr_read_number(path);
  if (p->speed <= 0) {
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", root,
             (int)p->cpu);
    p->speed = tsr_read_number(path);
  }
}

TSR_INTERNAL int32_t tsr_order_processors(const char* root, int32_t* cpus, int32_t count) {
  tsr_processor* all = (tsr_processor*)calloc((size_t)count, sizeof *all);
  int64_t fastest = 0;
  int32_t i, cores = 0;
  if (!all) return count;
  for (i = 0; i < count; ++i) {
    tsr_describe_processor(root, cpus, i, &all[i]);
    if (all[i].speed > fastest) fastest = all[i].speed;
  }
  for (i = 0; i < count; ++i) {
    /* In quarters: cores of one kind differ by a few percent, and that must not part siblings. */
    all[i].speed = fastest > 0 && all[i].speed > 0 ? (all[i].speed * 4 + fastest / 2) / fastest : 4;
    cores += all[i].sibling == 0 && all[i].speed >= 2;
  }
  qsort(all, (size_t)count, sizeof *all, tsr_compare_processors);
  for (i = 0; i < count; ++i) cpus[i] = all[i].cpu;
  free(all);
  return cores;
}

static int64_t tsr_lesser_limit(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return a + b;
  return a < b ? a : b;
}

/* Whole processors of `quota` in each `period`; 0: no limit. */
static int64_t tsr_whole_processors(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return quota < period ? 1 : quota / period;
}

/* The limit that the files of one folder set. */
static int64_t tsr_folder_quota(const char* folder) {
  char path[TSR_PATH_BYTES + 32], line[128], *end;
  int64_t quota;
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (tsr_read_line(path, line, sizeof line)) {
    quota = strtoll(line, &end, 10); /* "max 100000": no number, no limit */
    return end == line ? 0 : tsr_whole_processors(quota, strtoll(end, NULL, 10));
  }
  snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
  quota = tsr_read_number(path);
  snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
  return tsr_whole_processors(quota, tsr_read_number(path));
}

/* The same for memory. */
static int64_t tsr_folder_bytes(const char* folder) {
  char path[TSR_PATH_BYTES + 32], line[128];
  int64_t bytes;
  snprintf(path, sizeof path, "%s/memory.max", folder);
  if (!tsr_read_line(path, line, sizeof line)) {
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    if (!tsr_read_line(path, line, sizeof line)) return 0;
  }
  bytes = strtoll(line, NULL, 10); /* "max": no number, no limit */
  return bytes > 0 ? bytes : 0;
}

/* The limit that the files of one folder set; 0: none. */
typedef int64_t (*tsr_folder_limit)(const char* folder);

/* The least limit of `group` below `mount` and of all groups above it. In a container the group's
 * name may be that outside, which is not to be seen: its mount is then the group itself. */
static int64_t tsr_least_above(const char* mount, const char* group, tsr_folder_limit limit_of) {
  char folder[TSR_PATH_BYTES];
  const size_t least = strlen(mount);
  int64_t limit = 0;
  if (strstr(group, "..")) group = "";
  if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return 0;
  for (;;) {
    char* slash;
    limit = tsr_lesser_limit(limit, limit_of(folder));
    slash = strrchr(folder, '/');
    if (strlen(folder) <= least || !slash || (size_t)(slash - folder) < least) break;
    *slash = '\0';
  }
  return limit;
}

/* Whether "cpu,cpuacct" holds the name. */
static int tsr_names_hold(const char* names, const char* name) {
  const size_t length = strlen(name);
  for (;;) {
    const size_t next = strcspn(names, ",");
    if (next == length && strncmp(names, name, length) == 0) return 1;
    if (names[next] == '\0') return 0;
    names += next + 1;
  }
}

/* The least limit of all groups of the process that have the controller; 0: none. */
static int64_t tsr_group_limit(const char* root, const char* controller,
                               tsr_folder_limit limit_of) {
  char path[TSR_PATH_BYTES], line[TSR_PATH_BYTES];
  int64_t limit = 0;
  FILE* file;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  file = fopen(path, "re");
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    /* "HIERARCHY:CONTROLLERS:GROUP"; version 2 has no controllers here. */
    char* controllers = strchr(line, ':');
    char* group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    ++controllers;
    group[strcspn(group, "\n")] = '\0';
    if (*controllers == '\0') {
      snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
    } else if (tsr_names_hold(controllers, controller)) {
      snprintf(path, sizeof path, "%s/sys/fs/cgroup/%s", root, controllers);
      if (access(path, F_OK) != 0) {
        snprintf(path, sizeof path, "%s/sys/fs/cgroup/%s", root, controller);
      }
    } else {
      continue;
    }
    limit = tsr_lesser_limit(limit, tsr_least_above(path, group, limit_of));
  }
  fclose(file);
  return limit;
}

TSR_INTERNAL int32_t tsr_processor_quota(const char* root) {
  const int64_t limit = tsr_group_limit(root, "cpu", tsr_folder_quota);
  return limit > TSR_MOST_PROCESSORS ? 0 : (int32_t)limit;
}

TSR_INTERNAL int64_t tsr_memory_limit(const char* root) {
  return tsr_group_limit(root, "memory", tsr_folder_bytes);
}

TSR_INTERNAL int32_t tsr_default_threads(int32_t allowed, int32_t cores, int32_t quota) {
  int32_t threads = cores;
  if (threads < 2) threads = allowed < 2 ? allowed : 2;
  if (quota > 0 && quota < threads) threads = quota;
  return threads < 1 ? 1 : threads;
}
