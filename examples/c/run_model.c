/* Compiles or loads a model and runs it once: run_model MODEL [--threads N] [--target NAME]
 * [--plan FILE] [--save FOLDER]. MODEL is an ONNX file, zoo:NAME, or the folder of an artifact.
 * Inputs are a fixed pattern. Build, for a Tessera that is installed below PREFIX:
 * cc run_model.c -IPREFIX/include -LPREFIX/lib -ltessera -Wl,-rpath,PREFIX/lib -o run_model */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

static void check(tsr_status status) {
  if (status.code == TSR_OK) return;
  fprintf(stderr, "run_model: %s\n", status.message);
  exit(1);
}

/* A tensor over fresh memory; small numbers that every element type can hold. */
static tsr_dl_tensor make_tensor(const tsr_tensor_info* info) {
  tsr_dl_tensor tensor = {0};
  const int64_t size = info->dl_bits / 8;
  int64_t i;
  unsigned char* bytes = calloc((size_t)info->bytes + 1, 1);
  if (!bytes) check((tsr_status){TSR_OUT_OF_MEMORY, "no memory"});
  for (i = 0; i < info->bytes / size; ++i) {
    const float value = (float)(i % 7) / 8.0f;
    if (strcmp(info->dtype, "f32") == 0) {
      memcpy(bytes + i * size, &value, sizeof value);
    } else if (strcmp(info->dtype, "i64") == 0 || strcmp(info->dtype, "i32") == 0) {
      bytes[i * size] = (unsigned char)(i % 7);
    }
  }
  tensor.data = bytes;
  tensor.device.device_type = 1;
  tensor.ndim = info->rank;
  tensor.dtype.code = (uint8_t)info->dl_code;
  tensor.dtype.bits = (uint8_t)info->dl_bits;
  tensor.dtype.lanes = 1;
  tensor.shape = (int64_t*)info->shape;
  return tensor;
}

static void print_tensor(const tsr_tensor_info* info, const tsr_dl_tensor* tensor) {
  const float* values = tensor->data;
  int32_t d;
  int64_t i;
  printf("%s %s [", info->name, info->dtype);
  for (d = 0; d < info->rank; ++d) printf("%s%lld", d ? "," : "", (long long)info->shape[d]);
  printf("]");
  for (i = 0; strcmp(info->dtype, "f32") == 0 && i < 4 && i < info->bytes / 4; ++i) {
    printf(" %.4f", values[i]);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  const tsr_api* api = tsr_get_api(TSR_API_VERSION);
  const char* save = NULL;
  tsr_model* model = NULL;
  tsr_session* session = NULL;
  tsr_dl_tensor *inputs, *outputs;
  tsr_compile_options options = {sizeof options};
  int32_t i, num_inputs, num_outputs, threads = 0;
  tsr_status loaded;
  if (!api || argc < 2) {
    fprintf(stderr,
            "usage: run_model MODEL [--threads N] [--target NAME] [--plan FILE] [--save FOLDER]\n");
    return 2;
  }
  for (i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--target") == 0) options.target = argv[i + 1];
    if (strcmp(argv[i], "--plan") == 0) options.plan = argv[i + 1];
    if (strcmp(argv[i], "--save") == 0) save = argv[i + 1];
  }
  options.threads = threads;
  loaded = api->load(argv[1], &model);
  if (loaded.code != TSR_OK) check(api->compile(argv[1], &options, &model));
  if (save) check(api->save(model, save, NULL));
  check(api->create_session(model, threads, &session));
  num_inputs = api->num_inputs(model);
  num_outputs = api->num_outputs(model);
  inputs = calloc((size_t)num_inputs + 1, sizeof *inputs);
  outputs = calloc((size_t)num_outputs + 1, sizeof *outputs);
  if (!inputs || !outputs) return 1;
  for (i = 0; i < num_inputs; ++i) inputs[i] = make_tensor(api->input(model, i));
  for (i = 0; i < num_outputs; ++i) outputs[i] = make_tensor(api->output(model, i));
  check(api->run(session, inputs, num_inputs, outputs, num_outputs));
  for (i = 0; i < num_outputs; ++i) print_tensor(api->output(model, i), &outputs[i]);
  for (i = 0; i < num_inputs; ++i) free(inputs[i].data);
  for (i = 0; i < num_outputs; ++i) free(outputs[i].data);
  free(inputs);
  free(outputs);
  api->free_session(session);
  api->free_model(model);
  return 0;
}
