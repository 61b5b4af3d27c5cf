/* A cost model of one's own in a shared library: `tessera tune --cost-model lib:./libmine.so`.
   The library defines tessera_cost_model_open(). It runs inside of tessera: what it breaks, breaks
   tessera; a program of one's own (exec:) does not. examples/own has one of each. */
#ifndef TESSERA_COST_MODEL_ABI_H_
#define TESSERA_COST_MODEL_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_COST_MODEL_VERSION 1

/* Candidates of one task. Candidate i has row_counts[i] rows of `columns` values; those of all
   candidates lie behind each other. */
typedef struct {
  size_t candidates;
  size_t columns;
  const char* const* names; /* of the columns */
  const int32_t* row_counts;
  const float* rows;
} tessera_candidates;

typedef struct {
  /* Set by tessera before the call: the newest version of this header that it knows. */
  int32_t version;
  /* What a row is: "statement" (as it is set before the call), "loop", "step", "curve". Must stay
     valid. */
  const char* rows;
  /* Writes one score per candidate, all of them finite: the higher, the faster. Only the order
     among candidates of one task counts. 0: done; else no scores. One call at a time, from any
     thread. */
  int32_t (*score)(void* state, const tessera_candidates* candidates, float* scores);
  void* state;
  /* May be null: at the end of tessera's use. */
  void (*close)(void* state);
} tessera_cost_model;

/* Fills the model in. 0: done; else the library cannot be used. */
int32_t tessera_cost_model_open(tessera_cost_model* model);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_COST_MODEL_ABI_H_ */
