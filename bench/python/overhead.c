/* What a run costs from C: overhead MODEL RUNS prints microseconds of the fastest of 1000 rounds.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>
#include <time.h>

static tsr_dl_tensor make_tensor(const tsr_tensor_info* info) {
  tsr_dl_tensor t = {0};
  t.data = calloc(1, (size_t)info->bytes + 1);
  t.device.device_type = TSR_DL_CPU;
  t.ndim = info->rank;
  t.dtype.code = (uint8_t)info->dl_code;
  t.dtype.bits = (uint8_t)info->dl_bits;
  t.dtype.lanes = 1;
  t.shape = (int64_t*)info->shape;
  return t;
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  const tsr_api* api = tsr_get_api(TSR_API_VERSION);
  tsr_compile_options options = {0};
  tsr_model* model = NULL;
  tsr_session* session = NULL;
  tsr_dl_tensor in, out;
  double best = 1e30;
  int round, i, runs = argc > 2 ? atoi(argv[2]) : 50;
  options.size = sizeof options;
  options.threads = 1;
  if (!api || argc < 2 || api->compile(argv[1], &options, &model).code != TSR_OK) return 1;
  if (api->create_session(model, 1, &session).code != TSR_OK) return 1;
  in = make_tensor(api->input(model, 0));
  out = make_tensor(api->output(model, 0));
  for (round = 0; round < 1000; ++round) {
    const double start = now_us();
    double each;
    for (i = 0; i < runs; ++i) {
      if (api->run(session, &in, 1, &out, 1).code != TSR_OK) return 1;
    }
    each = (now_us() - start) / runs;
    if (each < best) best = each;
  }
  printf("%.3f\n", best);
  return 0;
}
