/* What the runtime of artifacts uses of the C library, as all 64-bit Linux systems have it. It is
 * compiled with these declarations alone: so one object serves every version of the library, and a
 * compiler for another architecture needs none of its headers. */
#ifndef TESSERA_ARTIFACT_LIBC_H_
#define TESSERA_ARTIFACT_LIBC_H_

#include <stdarg.h>
#include <stddef.h>

/* stdint.h */
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#define UINT64_C(c) c##UL
#define UINT32_MAX __UINT32_MAX__

/* stdlib.h */
void* malloc(size_t bytes);
void* calloc(size_t count, size_t bytes);
void free(void* memory);
int posix_memalign(void** memory, size_t alignment, size_t bytes);
void qsort(void* rows, size_t count, size_t bytes, int (*compare)(const void*, const void*));
long strtol(const char* text, char** end, int base);
long long strtoll(const char* text, char** end, int base);

/* string.h */
void* memcpy(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);
int memcmp(const void* a, const void* b, size_t bytes);
size_t strlen(const char* text);
int strcmp(const char* a, const char* b);
int strncmp(const char* a, const char* b, size_t count);
char* strcat(char* to, const char* text);
char* strchr(const char* text, int c);
char* strrchr(const char* text, int c);
char* strstr(const char* text, const char* part);
size_t strcspn(const char* text, const char* set);
char* strerror(int error);

/* stdio.h */
typedef struct tsr_libc_file FILE;
FILE* fopen(const char* path, const char* mode);
char* fgets(char* line, int bytes, FILE* file);
int fclose(FILE* file);
int snprintf(char* text, size_t bytes, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
int vsnprintf(char* text, size_t bytes, const char* format, va_list arguments);

/* errno.h */
int* __errno_location(void);
#define errno (*__errno_location())

/* fcntl.h, unistd.h, sys/mman.h */
enum { O_RDONLY = 0, O_CLOEXEC = 02000000, SEEK_END = 2, F_OK = 0, PROT_READ = 1, MAP_PRIVATE = 2 };
#define MAP_FAILED ((void*)-1)
int open(const char* path, int flags, ...);
int close(int descriptor);
int64_t lseek(int descriptor, int64_t offset, int from);
int access(const char* path, int mode);
void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, int64_t offset);
int munmap(void* address, size_t bytes);

/* sys/syscall.h, linux/futex.h */
long syscall(long number, ...);
#if defined(__aarch64__)
enum { SYS_futex = 98 };
#else
enum { SYS_futex = 202 };
#endif
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

/* time.h, sys/resource.h */
struct timespec {
  int64_t tv_sec;
  long tv_nsec;
};
enum { CLOCK_MONOTONIC = 1, RUSAGE_THREAD = 1 };
int clock_gettime(int clock, struct timespec* time);
struct rusage {
  int64_t times[4];
  long ru_maxrss, ru_ixrss, ru_idrss, ru_isrss, ru_minflt, ru_majflt, ru_nswap, ru_inblock,
      ru_oublock, ru_msgsnd, ru_msgrcv, ru_nsignals, ru_nvcsw, ru_nivcsw;
};
int getrusage(int who, struct rusage* usage);

/* sched.h */
enum { CPU_SETSIZE = 1024, TSR_LIBC_WORD_BITS = 64 };
typedef struct cpu_set_t {
  unsigned long words[CPU_SETSIZE / TSR_LIBC_WORD_BITS];
} cpu_set_t;
#define CPU_ZERO(set) memset(set, 0, sizeof(cpu_set_t))
#define CPU_SET(cpu, set) \
  ((set)->words[(cpu) / TSR_LIBC_WORD_BITS] |= 1UL << ((cpu) % TSR_LIBC_WORD_BITS))
#define CPU_ISSET_S(cpu, bytes, set) \
  ((cpu) / 8 < (bytes) &&            \
   ((set)->words[(cpu) / TSR_LIBC_WORD_BITS] >> ((cpu) % TSR_LIBC_WORD_BITS) & 1))
#define CPU_ALLOC_SIZE(count) \
  (((count) + TSR_LIBC_WORD_BITS - 1) / TSR_LIBC_WORD_BITS * sizeof(unsigned long))
#define CPU_ALLOC(count) ((cpu_set_t*)malloc(CPU_ALLOC_SIZE(count)))
#define CPU_FREE(set) free(set)
int sched_getaffinity(int process, size_t bytes, cpu_set_t* set);
int sched_setaffinity(int process, size_t bytes, const cpu_set_t* set);
int sched_yield(void);

/* pthread.h */
typedef unsigned long pthread_t;
int pthread_create(pthread_t* thread, const void* attributes, void* (*run)(void*), void* argument);
int pthread_join(pthread_t thread, void** result);

/* sys/auxv.h, dlfcn.h */
unsigned long getauxval(unsigned long type);
enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_LOCAL = 0 };
void* dlopen(const char* path, int mode);
void* dlsym(void* library, const char* symbol);
char* dlerror(void);
int dlclose(void* library);

#endif
