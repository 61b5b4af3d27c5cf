/* Runs a compiled model on raw tensors: run_artifact [--weights FILE] [--threads N] [--device N]
 * [--repeat N] INPUT... OUTPUT... Build, for the model `mlp` that `tessera compile zoo:mlp -o DIR`
 * wrote, for a processor or a GPU:
 * cc -DMODEL_HEADER='"mlp.h"' -DMODEL_API=mlp_api -IDIR run_artifact.c DIR/libmlp.so \
 *   -Wl,-rpath,"$(realpath DIR)" -o run_artifact */
#include MODEL_HEADER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "run_artifact: %s: %s\n", what, detail);
  exit(1);
}

static void check(tsr_status status) {
  if (status.code != TSR_OK) fail("model", status.message);
}

/* A multiple of 64 bytes: such memory is used in place. */
static void* allocate(int64_t bytes) {
  void* p = aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
  if (!p) fail("memory", "exhausted");
  return p;
}

static void transfer(const char* path, const char* mode, void* data, int64_t bytes) {
  FILE* file = fopen(path, mode);
  size_t done;
  if (!file) fail("cannot open", path);
  done =
      mode[0] == 'r' ? fread(data, 1, (size_t)bytes, file) : fwrite(data, 1, (size_t)bytes, file);
  if (fclose(file) != 0 || done != (size_t)bytes) fail("wrong size or full disk", path);
}

int main(int argc, char** argv) {
  const tsr_model_api* api = MODEL_API();
  const tsr_model_info* info = api->info;
  tsr_open_options options = {0};
  tsr_context* context = NULL;
  const void** inputs = calloc((size_t)info->num_inputs + 1, sizeof *inputs);
  void** outputs = calloc((size_t)info->num_outputs + 1, sizeof *outputs);
  void* memory;
  int32_t i;
  int next = 1, repeat = 1;
  for (; next + 1 < argc && argv[next][0] == '-'; next += 2) {
    if (strcmp(argv[next], "--weights") == 0) options.weights_path = argv[next + 1];
    if (strcmp(argv[next], "--threads") == 0) options.threads = atoi(argv[next + 1]);
    if (strcmp(argv[next], "--device") == 0) options.device = atoi(argv[next + 1]);
    if (strcmp(argv[next], "--repeat") == 0) repeat = atoi(argv[next + 1]);
  }
  if (!inputs || !outputs) fail("memory", "exhausted");
  if (argc - next != info->num_inputs + info->num_outputs) {
    fprintf(stderr, "%s %s for %s: give %d input and %d output files\n", info->name,
            info->model_digest, info->triple, (int)info->num_inputs, (int)info->num_outputs);
    return 2;
  }
  check(api->open(&options, &context));
  for (i = 0; i < info->num_inputs; ++i) {
    void* data = allocate(info->inputs[i].bytes);
    transfer(argv[next++], "rb", data, info->inputs[i].bytes);
    inputs[i] = data;
  }
  for (i = 0; i < info->num_outputs; ++i) outputs[i] = allocate(info->outputs[i].bytes);
  /* The memory between inputs and outputs may come from the caller too. */
  memory = allocate(api->memory_bytes(context));
  for (; repeat > 0; --repeat) check(api->run(context, inputs, outputs, memory));
  for (i = 0; i < info->num_outputs; ++i) {
    transfer(argv[next++], "wb", outputs[i], info->outputs[i].bytes);
    printf("%s: %s, %lld bytes\n", info->outputs[i].name, info->outputs[i].dtype,
           (long long)info->outputs[i].bytes);
  }
  api->close(context);
  for (i = 0; i < info->num_inputs; ++i) free((void*)inputs[i]);
  for (i = 0; i < info->num_outputs; ++i) free(outputs[i]);
  free(memory);
  free(inputs);
  free(outputs);
  return 0;
}
