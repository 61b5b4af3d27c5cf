/* A cost model of one's own in C: many accumulators are good.

     cc -shared -fPIC -O2 -I tessera/learn/model/include examples/own/cost_model.c -o libmine.so
     tessera tune zoo:squeezenet1_1 --budget 2m --cost-model lib:./libmine.so

   An installed Tessera has the header in its include folder. */
#include <string.h>
#include <tessera/cost_model_abi.h>

/* The number of the column, or that of columns where there is none. */
static size_t column_of(const tessera_candidates* candidates, const char* name) {
  size_t column = 0;
  while (column < candidates->columns && strcmp(candidates->names[column], name) != 0) ++column;
  return column;
}

static int32_t score(void* state, const tessera_candidates* candidates, float* scores) {
  const size_t column = column_of(candidates, "accumulator_vectors");
  const float* row = candidates->rows;
  (void)state;
  if (column == candidates->columns) return 1;
  for (size_t i = 0; i < candidates->candidates; ++i) {
    scores[i] = 0;
    for (int32_t r = 0; r < candidates->row_counts[i]; ++r, row += candidates->columns)
      scores[i] += row[column];
  }
  return 0;
}

int32_t tessera_cost_model_open(tessera_cost_model* model) {
  if (model->version < TESSERA_COST_MODEL_VERSION) return 1;
  model->rows = "statement";
  model->score = score;
  return 0;
}
