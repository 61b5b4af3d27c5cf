/* Opening and running the program of an artifact. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/artifact/runtime/cpu_check.c"
#include "tessera/artifact/runtime/digest.c"
#include "tessera/artifact/runtime/program.h"
#include "tessera/runtime/fork_join.c"
#include "tessera/target/processors.c"

enum { TSR_PAGE_BYTES = 4096 };

struct tsr_context {
  const tsr_program* program;
  tsr_host* host;
  tsr_pool* pool; /* NULL: the caller's host */
  const unsigned char* weights;
  void* mapping;          /* of the weights file, or NULL */
  unsigned char* memory;  /* own arena and scratch, made by the first run that needs it */
  unsigned char** staged; /* own aligned copies, by input then output; NULL: not needed yet */
  void** params;
  const unsigned char** inputs; /* of this run */
  unsigned char** outputs;
  int32_t busy;
};

static tsr_status tsr_ok(void) {
  tsr_status status;
  status.code = TSR_OK;
  status.message[0] = '\0';
  return status;
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static tsr_status
tsr_fail(int32_t code, const char* format, ...) {
  tsr_status status;
  va_list arguments;
  int length;
  status.code = code;
  va_start(arguments, format);
  length = vsnprintf(status.message, sizeof status.message, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof status.message) {
    memcpy(status.message + sizeof status.message - 4, "...", 4);
  }
  return status;
}

static int tsr_aligned(const void* p) { return ((uintptr_t)p & (TSR_ALIGNMENT - 1)) == 0; }

static unsigned char* tsr_allocate(int64_t bytes) {
  void* p = NULL;
  if (posix_memalign(&p, TSR_ALIGNMENT, bytes > 0 ? (size_t)bytes : TSR_ALIGNMENT) != 0)
    return NULL;
  return (unsigned char*)p;
}

static tsr_status tsr_map_weights(tsr_context* context, const char* path) {
  const tsr_model_info* info = context->program->info;
  struct stat file;
  void* mapping;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return tsr_fail(TSR_IO, "cannot read %s: %s", path, strerror(errno));
  if (fstat(descriptor, &file) != 0 || (int64_t)file.st_size != info->weights_bytes) {
    close(descriptor);
    return tsr_fail(TSR_INVALID_ARGUMENT,
                    "%s is not the weights file of %s: it must have %lld bytes", path, info->name,
                    (long long)info->weights_bytes);
  }
  mapping = mmap(NULL, (size_t)info->weights_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (mapping == MAP_FAILED) return tsr_fail(TSR_IO, "cannot map %s: %s", path, strerror(errno));
  context->mapping = mapping;
  context->weights = (const unsigned char*)mapping;
  return tsr_ok();
}

static tsr_status tsr_find_weights(tsr_context* context, const tsr_open_options* options) {
  const tsr_program* program = context->program;
  const tsr_model_info* info = program->info;
  if (program->embedded || info->weights_bytes == 0) {
    context->weights = program->embedded;
    return tsr_ok();
  }
  if (options->weights) {
    if ((int64_t)options->weights_bytes != info->weights_bytes || !tsr_aligned(options->weights)) {
      return tsr_fail(TSR_INVALID_ARGUMENT,
                      "the weights of %s must be %lld bytes at a multiple of 64", info->name,
                      (long long)info->weights_bytes);
    }
    context->weights = (const unsigned char*)options->weights;
  } else if (options->weights_path) {
    const tsr_status mapped = tsr_map_weights(context, options->weights_path);
    if (mapped.code != TSR_OK) return mapped;
  } else {
    return tsr_fail(TSR_INVALID_ARGUMENT,
                    "%s has its weights in a file: give weights_path or weights", info->name);
  }
  if (!options->trust_weights &&
      tsr_digest(context->weights, (uint64_t)info->weights_bytes) != program->weights_digest) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s: the weights are damaged or of another build",
                    info->name);
  }
  return tsr_ok();
}

static void tsr_close(tsr_context* context) {
  int32_t i;
  if (!context) return;
  tsr_pool_destroy(context->pool);
  if (context->mapping) munmap(context->mapping, (size_t)context->program->info->weights_bytes);
  if (context->staged) {
    const tsr_model_info* info = context->program->info;
    for (i = 0; i < info->num_inputs + info->num_outputs; ++i) free(context->staged[i]);
  }
  free(context->staged);
  free(context->params);
  free((void*)context->inputs);
  free(context->outputs);
  free(context->memory);
  free(context);
}

/* threads: the caller included; 0: as many as the processors are worth. */
static tsr_pool* tsr_own_pool(int32_t threads) {
  enum { TSR_CAPACITY = 1 << 14, TSR_LINGER_NS = 50000 };
  int32_t* cpus = (int32_t*)malloc(TSR_CAPACITY * sizeof *cpus);
  tsr_pool_options options;
  tsr_pool* pool;
  int32_t allowed, quota;
  if (!cpus) return NULL;
  memset(&options, 0, sizeof options);
  allowed = tsr_allowed_processors(cpus, TSR_CAPACITY);
  quota = tsr_processor_quota("");
  if (threads <= 0) {
    threads = tsr_default_threads(allowed, tsr_order_processors("", cpus, allowed), quota);
  }
  options.threads = threads;
  options.processors = quota > 0 && quota < allowed ? quota : allowed;
  options.linger_ns = TSR_LINGER_NS;
  pool = tsr_pool_create(&options);
  free(cpus);
  return pool;
}

static int tsr_allocate_tables(tsr_context* context) {
  const tsr_model_info* info = context->program->info;
  const size_t in = (size_t)info->num_inputs, out = (size_t)info->num_outputs;
  context->staged = (unsigned char**)calloc(in + out + 1, sizeof *context->staged);
  context->params =
      (void**)calloc((size_t)context->program->max_places + 1, sizeof *context->params);
  context->inputs = (const unsigned char**)calloc(in + 1, sizeof *context->inputs);
  context->outputs = (unsigned char**)calloc(out + 1, sizeof *context->outputs);
  return context->staged && context->params && context->inputs && context->outputs;
}

static tsr_status tsr_open(const tsr_program* program, const tsr_open_options* options,
                           tsr_context** result) {
  static const tsr_open_options defaults;
  const char* missing = tsr_missing_feature(program->features);
  tsr_context* context;
  tsr_status status;
  if (!result) return tsr_fail(TSR_INVALID_ARGUMENT, "no place for the context");
  *result = NULL;
  if (!options) options = &defaults;
  if (missing) {
    return tsr_fail(TSR_UNSUPPORTED, "this machine lacks %s, which %s was compiled for (needs %s)",
                    missing, program->info->name, program->info->features);
  }
  if (options->host && (options->host->num_workers < 1 || !options->host->parallel_for)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "the host needs parallel_for and at least one worker");
  }
  context = (tsr_context*)calloc(1, sizeof *context);
  if (!context) return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a context");
  context->program = program;
  status = tsr_find_weights(context, options);
  if (status.code == TSR_OK) {
    context->host = options->host;
    if (!context->host) context->pool = tsr_own_pool(options->threads);
    if (context->pool) context->host = tsr_pool_host(context->pool);
    if (!context->host || !tsr_allocate_tables(context)) {
      status = tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a context");
    }
  }
  if (status.code != TSR_OK) {
    tsr_close(context);
    return status;
  }
  *result = context;
  return status;
}

static int64_t tsr_memory_bytes(const tsr_context* context) {
  const tsr_model_info* info = context->program->info;
  return info->arena_bytes + info->shared_bytes + context->host->num_workers * info->worker_bytes;
}

static void tsr_zero_pages(void* closure, int64_t begin, int64_t end, int32_t worker) {
  const tsr_context* context = (const tsr_context*)closure;
  const int64_t bytes = tsr_memory_bytes(context);
  const int64_t from = begin * TSR_PAGE_BYTES, to = end * TSR_PAGE_BYTES;
  (void)worker;
  memset(context->memory + from, 0, (size_t)((to < bytes ? to : bytes) - from));
}

/* Memory of the context's own. The workers touch it first, each in its share, so that the system
 * takes it from the part of the machine that they run on. */
static unsigned char* tsr_own_memory(tsr_context* context) {
  const int64_t bytes = tsr_memory_bytes(context);
  if (!context->memory) {
    context->memory = tsr_allocate(bytes);
    if (context->memory) {
      context->host->parallel_for(context->host, tsr_zero_pages, context,
                                  (bytes + TSR_PAGE_BYTES - 1) / TSR_PAGE_BYTES);
    }
  }
  return context->memory;
}

/* The caller's memory, or an aligned copy of it; `copy` fills the copy. */
static tsr_status tsr_stage(tsr_context* context, const tsr_tensor_info* tensor, int32_t slot,
                            const void* given, int copy, unsigned char** used) {
  if (!given && tensor->bytes > 0) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "no memory given for %s", tensor->name);
  }
  *used = (unsigned char*)(uintptr_t)given;
  if (tsr_aligned(given)) return tsr_ok();
  if (!context->staged[slot]) context->staged[slot] = tsr_allocate(tensor->bytes);
  if (!context->staged[slot]) {
    return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a copy of %s", tensor->name);
  }
  if (copy) memcpy(context->staged[slot], given, (size_t)tensor->bytes);
  *used = context->staged[slot];
  return tsr_ok();
}

static int tsr_overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return a_bytes > 0 && b_bytes > 0 && x < y + (uintptr_t)b_bytes && y < x + (uintptr_t)a_bytes;
}

/* Kernels write an output while inputs and other outputs are still read. */
static tsr_status tsr_check_overlap(const tsr_model_info* info, const void* const* inputs,
                                    void* const* outputs) {
  int32_t o, i;
  for (o = 0; o < info->num_outputs; ++o) {
    const tsr_tensor_info* out = &info->outputs[o];
    for (i = 0; i < info->num_inputs; ++i) {
      if (tsr_overlap(outputs[o], out->bytes, inputs[i], info->inputs[i].bytes)) {
        return tsr_fail(TSR_INVALID_ARGUMENT, "output %s overlaps input %s", out->name,
                        info->inputs[i].name);
      }
    }
    for (i = 0; i < o; ++i) {
      if (tsr_overlap(outputs[o], out->bytes, outputs[i], info->outputs[i].bytes)) {
        return tsr_fail(TSR_INVALID_ARGUMENT, "outputs %s and %s overlap", info->outputs[i].name,
                        out->name);
      }
    }
  }
  return tsr_ok();
}

static tsr_status tsr_bind(tsr_context* context, const void* const* inputs, void* const* outputs) {
  const tsr_model_info* info = context->program->info;
  tsr_status status = tsr_ok();
  int32_t i;
  if ((!inputs && info->num_inputs > 0) || (!outputs && info->num_outputs > 0)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "no inputs or no outputs given");
  }
  status = tsr_check_overlap(info, inputs, outputs);
  for (i = 0; status.code == TSR_OK && i < info->num_inputs; ++i) {
    unsigned char* used = NULL;
    status = tsr_stage(context, &info->inputs[i], i, inputs[i], 1, &used);
    context->inputs[i] = used;
  }
  for (i = 0; status.code == TSR_OK && i < info->num_outputs; ++i) {
    status = tsr_stage(context, &info->outputs[i], info->num_inputs + i, outputs[i], 0,
                       &context->outputs[i]);
  }
  return status;
}

static void* tsr_resolve(const tsr_context* context, const tsr_place* place,
                         unsigned char* memory) {
  switch (place->kind) {
    case TSR_PLACE_INPUT: /* kernels only read inputs and weights; their parameters have one type */
      return (void*)(uintptr_t)context->inputs[place->index];
    case TSR_PLACE_OUTPUT:
      return context->outputs[place->index];
    case TSR_PLACE_WEIGHTS:
      return (void*)(uintptr_t)(context->weights + place->offset);
    case TSR_PLACE_ARENA:
      return memory + place->offset;
    default:
      return NULL;
  }
}

static tsr_status tsr_execute(tsr_context* context, unsigned char* memory) {
  const tsr_program* program = context->program;
  unsigned char* scratch = memory + program->info->arena_bytes;
  int64_t s, c;
  int32_t i;
  for (s = 0; s < program->num_steps; ++s) {
    const tsr_step* step = &program->steps[s];
    int32_t code;
    for (i = 0; i < step->num_places; ++i) {
      context->params[i] = tsr_resolve(context, &program->places[step->first_place + i], memory);
    }
    code = step->kernel(context->params, scratch, context->host);
    if (code != 0) return tsr_fail(TSR_RUN_FAILED, "kernel %s returned %d", step->name, (int)code);
  }
  for (c = 0; c < program->num_copies; ++c) {
    const tsr_copy* copy = &program->copies[c];
    memcpy(context->outputs[copy->output], tsr_resolve(context, &copy->from, memory),
           (size_t)program->info->outputs[copy->output].bytes);
  }
  return tsr_ok();
}

static tsr_status tsr_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                          void* memory) {
  const tsr_model_info* info;
  tsr_status status;
  int32_t o;
  if (!context) return tsr_fail(TSR_INVALID_ARGUMENT, "no context");
  if (memory && !tsr_aligned(memory)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "the memory must start at a multiple of 64 bytes");
  }
  if (__atomic_exchange_n(&context->busy, 1, __ATOMIC_ACQUIRE)) {
    return tsr_fail(TSR_RUN_FAILED, "the context is running in another thread");
  }
  info = context->program->info;
  if (context->pool) tsr_pool_begin(context->pool);
  if (!memory) memory = tsr_own_memory(context);
  status = memory ? tsr_bind(context, inputs, outputs)
                  : tsr_fail(TSR_OUT_OF_MEMORY, "no memory for %lld bytes",
                             (long long)tsr_memory_bytes(context));
  if (status.code == TSR_OK) status = tsr_execute(context, (unsigned char*)memory);
  for (o = 0; status.code == TSR_OK && o < info->num_outputs; ++o) {
    if (context->outputs[o] != outputs[o]) {
      memcpy(outputs[o], context->outputs[o], (size_t)info->outputs[o].bytes);
    }
  }
  if (context->pool) tsr_pool_end(context->pool);
  __atomic_store_n(&context->busy, 0, __ATOMIC_RELEASE);
  return status;
}
