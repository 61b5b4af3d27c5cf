/* The tables that an artifact's generated source fills in and its runtime reads. */
#ifndef TESSERA_ARTIFACT_PROGRAM_H_
#define TESSERA_ARTIFACT_PROGRAM_H_

#include "tessera/backend/artifact/runtime/types.h"

enum { TSR_ALIGNMENT = 64 };

enum {
  TSR_PLACE_NONE = 0, /* no elements: NULL */
  TSR_PLACE_INPUT = 1,
  TSR_PLACE_OUTPUT = 2,
  TSR_PLACE_WEIGHTS = 3,
  TSR_PLACE_ARENA = 4
};

typedef struct tsr_place {
  int32_t kind;
  int32_t index;  /* of the input or output */
  int64_t offset; /* bytes into the weights or the arena */
  int64_t bytes;  /* there */
} tsr_place;

/* An output that no kernel writes: it is an input, a constant or another output. */
typedef struct tsr_copy {
  tsr_place from;
  int32_t output;
} tsr_copy;

/* An input of i32 or i64 whose elements are indices: element i must be in [-n, n) with n = sizes[i
 * % num_sizes]. */
typedef struct tsr_index_check {
  const char* node; /* that reads by them */
  const int64_t* sizes;
  int64_t num_sizes;
  int32_t input;
} tsr_index_check;

/* What both kinds of programs have. */
typedef struct tsr_common {
  const tsr_model_info* info;
  const unsigned char* embedded; /* NULL: the weights come from outside */
  uint64_t weights_digest;
  const tsr_copy* copies;
  int64_t num_copies;
  const tsr_index_check* index_checks;
  int64_t num_index_checks;
} tsr_common;

/* An operator that is no kernel but a function of the runtime (host_operators.c). */
enum { TSR_HOST_TOPK = 1, TSR_HOST_SCATTER_ELEMENTS = 2, TSR_HOST_SCATTER_ND = 3 };
enum {
  TSR_COMBINE_SET = 0,
  TSR_COMBINE_ADD = 1,
  TSR_COMBINE_MUL = 2,
  TSR_COMBINE_MIN = 3,
  TSR_COMBINE_MAX = 4
};
enum {
  TSR_DL_CODE_INT = 0,
  TSR_DL_CODE_UINT = 1,
  TSR_DL_CODE_FLOAT = 2,
  TSR_DL_CODE_BFLOAT = 4,
  TSR_DL_CODE_BOOL = 6
};

typedef struct tsr_host_call {
  int32_t function;                /* TSR_HOST_... */
  const tsr_tensor_info* operands; /* inputs, then outputs, as the places of the step */
  const int64_t* integers;         /* attributes, as the function says */
} tsr_host_call;

/* Of processors: functions of the library itself. The programs of a library are its variants. */
typedef struct tsr_step {
  tsr_kernel kernel;               /* or, if it is NULL, */
  const tsr_host_call* host;       /* this */
  int32_t first_place, num_places; /* of its parameters, in tsr_program.places */
  const char* name;
} tsr_step;

typedef struct tsr_program {
  tsr_common common;
  const char* const* features; /* ends with NULL */
  const tsr_step* steps;
  int64_t num_steps;
  const tsr_place* places;
  int32_t max_places; /* of one step */
  /* The same model for processors that lack a feature of this program; NULL: there is none. */
  const struct tsr_program* next;
} tsr_program;

/* Of GPUs: code that the driver loads, and kernels of it in the order in which they run. */
typedef struct tsr_module {
  int64_t text, text_bytes;     /* PTX or OpenCL C in tsr_device_program.code, a zero behind it */
  int64_t binary, binary_bytes; /* the same assembled for the capability; 0 bytes: there is none */
} tsr_module;

typedef struct tsr_launch {
  const char* kernel; /* its name in the module */
  int32_t module;
  int32_t first_argument, num_arguments; /* in tsr_device_program.arguments */
  uint32_t grid[3], block[3], shared_bytes;
  int32_t waits;                  /* it waits itself for the kernels before it to end */
  int32_t first_after, num_after; /* in tsr_device_program.after */
} tsr_launch;

typedef struct tsr_device_program {
  tsr_common common;
  const unsigned char* code;
  int32_t capability; /* of CUDA: what the code was made for, 90 is 9.0 */
  const tsr_module* modules;
  int64_t num_modules;
  const tsr_launch* launches;
  int64_t num_launches;
  const int32_t* arguments; /* numbers of places */
  int32_t max_arguments;    /* of one launch */
  const tsr_place* places;
  int64_t num_places;
  const int32_t* after; /* numbers of the launches that one comes after; NULL: all before it */
} tsr_device_program;

#endif
