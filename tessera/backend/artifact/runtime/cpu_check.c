/* Which instruction-set features this processor and its operating system offer, by LLVM's names. */
#include <string.h>

#if defined(__aarch64__)

#include <sys/auxv.h>

typedef struct tsr_feature {
  const char* name;
  unsigned long type; /* AT_HWCAP or AT_HWCAP2 */
  int bit;
} tsr_feature;

/* Linux: arch/arm64/include/uapi/asm/hwcap.h. 16 and 26 are AT_HWCAP and AT_HWCAP2. */
static const tsr_feature tsr_features[] = {
    {"fp-armv8", 16, 0}, {"neon", 16, 1},  {"aes", 16, 3},        {"sha2", 16, 6},
    {"crc", 16, 7},      {"lse", 16, 8},   {"fullfp16", 16, 10},  {"rdm", 16, 12},
    {"jsconv", 16, 13},  {"rcpc", 16, 15}, {"complxnum", 16, 14}, {"sha3", 16, 17},
    {"dotprod", 16, 20}, {"sve", 16, 22},  {"fp16fml", 16, 23},   {"sve2", 26, 1},
    {"i8mm", 26, 13},    {"bf16", 26, 14}, {"sme", 26, 23},
};

static int tsr_feature_present(const tsr_feature* f) {
  return (int)(getauxval(f->type) >> f->bit & 1);
}

#elif defined(__x86_64__)

#include <cpuid.h>

enum { TSR_EAX, TSR_EBX, TSR_ECX, TSR_EDX };
/* The register state that the operating system must save for a feature to be usable. */
enum { TSR_STATE_NONE = 0, TSR_STATE_YMM = 0x06, TSR_STATE_ZMM = 0xe6, TSR_STATE_TILES = 0x600e6 };

typedef struct tsr_feature {
  const char* name;
  unsigned leaf, subleaf;
  int word, bit;
  unsigned state;
} tsr_feature;

/* Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID. */
static const tsr_feature tsr_features[] = {
    {"sse3", 1, 0, TSR_ECX, 0, TSR_STATE_NONE},
    {"ssse3", 1, 0, TSR_ECX, 9, TSR_STATE_NONE},
    {"fma", 1, 0, TSR_ECX, 12, TSR_STATE_YMM},
    {"sse4.1", 1, 0, TSR_ECX, 19, TSR_STATE_NONE},
    {"sse4.2", 1, 0, TSR_ECX, 20, TSR_STATE_NONE},
    {"movbe", 1, 0, TSR_ECX, 22, TSR_STATE_NONE},
    {"popcnt", 1, 0, TSR_ECX, 23, TSR_STATE_NONE},
    {"avx", 1, 0, TSR_ECX, 28, TSR_STATE_YMM},
    {"f16c", 1, 0, TSR_ECX, 29, TSR_STATE_YMM},
    {"bmi", 7, 0, TSR_EBX, 3, TSR_STATE_NONE},
    {"avx2", 7, 0, TSR_EBX, 5, TSR_STATE_YMM},
    {"bmi2", 7, 0, TSR_EBX, 8, TSR_STATE_NONE},
    {"avx512f", 7, 0, TSR_EBX, 16, TSR_STATE_ZMM},
    {"avx512dq", 7, 0, TSR_EBX, 17, TSR_STATE_ZMM},
    {"avx512cd", 7, 0, TSR_EBX, 28, TSR_STATE_ZMM},
    {"avx512bw", 7, 0, TSR_EBX, 30, TSR_STATE_ZMM},
    {"avx512vl", 7, 0, TSR_EBX, 31, TSR_STATE_ZMM},
    {"avx512vbmi", 7, 0, TSR_ECX, 1, TSR_STATE_ZMM},
    {"gfni", 7, 0, TSR_ECX, 8, TSR_STATE_NONE},
    {"vaes", 7, 0, TSR_ECX, 9, TSR_STATE_YMM},
    {"avx512vnni", 7, 0, TSR_ECX, 11, TSR_STATE_ZMM},
    {"avx512fp16", 7, 0, TSR_EDX, 23, TSR_STATE_ZMM},
    {"amx-bf16", 7, 0, TSR_EDX, 22, TSR_STATE_TILES},
    {"amx-tile", 7, 0, TSR_EDX, 24, TSR_STATE_TILES},
    {"amx-int8", 7, 0, TSR_EDX, 25, TSR_STATE_TILES},
    {"avxvnni", 7, 1, TSR_EAX, 4, TSR_STATE_YMM},
    {"avx512bf16", 7, 1, TSR_EAX, 5, TSR_STATE_ZMM},
    {"lzcnt", 0x80000001, 0, TSR_ECX, 5, TSR_STATE_NONE},
};

static unsigned tsr_saved_state(void) {
  unsigned r[4] = {0, 0, 0, 0}, low = 0, high = 0;
  if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || (r[TSR_ECX] >> 27 & 1) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* Linux makes room for tiles only in processes that ask for it: ARCH_REQ_XCOMP_PERM of
   arch_prctl, without libc. */
static int tsr_may_use_tiles(void) {
  long result = 158;
  __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  return result == 0;
}

static int tsr_feature_present(const tsr_feature* f) {
  unsigned r[4] = {0, 0, 0, 0};
  if (!__get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3])) return 0;
  if ((r[f->word] >> f->bit & 1) == 0 || (tsr_saved_state() & f->state) != f->state) return 0;
  return f->state != TSR_STATE_TILES || tsr_may_use_tiles();
}

#else
#error "artifacts run on AArch64 and x86-64"
#endif

/* 0 also for a name that this architecture does not have. */
static int tsr_cpu_has(const char* name) {
  size_t i;
  for (i = 0; i < sizeof tsr_features / sizeof tsr_features[0]; ++i) {
    if (strcmp(tsr_features[i].name, name) == 0) return tsr_feature_present(&tsr_features[i]);
  }
  return 0;
}

/* The first of `features` (ends with NULL) that is absent, or NULL. */
static const char* tsr_missing_feature(const char* const* features) {
  for (; *features; ++features) {
    if (!tsr_cpu_has(*features)) return *features;
  }
  return NULL;
}
