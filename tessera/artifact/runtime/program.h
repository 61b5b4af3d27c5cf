/* The tables that an artifact's generated source fills in and its runtime reads. */
#ifndef TESSERA_ARTIFACT_PROGRAM_H_
#define TESSERA_ARTIFACT_PROGRAM_H_

#include "tessera/artifact/runtime/types.h"

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
} tsr_place;

typedef struct tsr_step {
  tsr_kernel kernel;
  int32_t first_place, num_places; /* of its parameters, in tsr_program.places */
  const char* name;
} tsr_step;

/* An output that no kernel writes: it is an input, a constant or another output. */
typedef struct tsr_copy {
  tsr_place from;
  int32_t output;
} tsr_copy;

typedef struct tsr_program {
  const tsr_model_info* info;
  const char* const* features; /* ends with NULL */
  const tsr_step* steps;
  int64_t num_steps;
  const tsr_place* places;
  const tsr_copy* copies;
  int64_t num_copies;
  int32_t max_places;            /* of one step */
  const unsigned char* embedded; /* NULL: the weights come from outside */
  uint64_t weights_digest;
} tsr_program;

#endif
