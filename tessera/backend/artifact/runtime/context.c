/* Opening and running the program of an artifact on the processor. */
#include <stdlib.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/cpu_check.c"
#include "tessera/backend/artifact/runtime/host_operators.c"
#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/runtime/tensors.c"
#include "tessera/backend/artifact/runtime/weights.c"
#include "tessera/machine/runtime/fork_join.c"
#include "tessera/machine/target/processors.c"

enum { TSR_PAGE_BYTES = 4096 };

struct tsr_context {
  const tsr_program* program;
  tsr_host* host;
  tsr_pool* pool; /* NULL: the caller's host */
  tsr_weights weights;
  unsigned char* memory;  /* own arena and scratch, made by the first run that needs it */
  tsr_given* given;       /* of this run: inputs, then outputs */
  unsigned char** staged; /* own aligned copies of them; NULL: not needed yet */
  unsigned char** used;   /* what kernels read and write: the given or the copies */
  void** params;
  int32_t busy;
};

static unsigned char* tsr_allocate(int64_t bytes) {
  void* p = NULL;
  if (posix_memalign(&p, TSR_ALIGNMENT, bytes > 0 ? (size_t)bytes : TSR_ALIGNMENT) != 0)
    return NULL;
  return (unsigned char*)p;
}

static void tsr_close(tsr_context* context) {
  int32_t i;
  if (!context) return;
  tsr_pool_destroy(context->pool);
  tsr_release_weights(&context->program->common, &context->weights);
  if (context->staged) {
    const tsr_model_info* info = context->program->common.info;
    for (i = 0; i < info->num_inputs + info->num_outputs; ++i) free(context->staged[i]);
  }
  free(context->given);
  free(context->staged);
  free(context->used);
  free(context->params);
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
  const tsr_model_info* info = context->program->common.info;
  const size_t slots = (size_t)(info->num_inputs + info->num_outputs) + 1;
  context->given = (tsr_given*)calloc(slots, sizeof *context->given);
  context->staged = (unsigned char**)calloc(slots, sizeof *context->staged);
  context->used = (unsigned char**)calloc(slots, sizeof *context->used);
  context->params =
      (void**)calloc((size_t)context->program->max_places + 1, sizeof *context->params);
  return context->given && context->staged && context->used && context->params;
}

/* The variant of that number, counted from 1; 0: the first that this machine has the features of.
 */
static tsr_status tsr_choose(const tsr_program** program, int32_t number) {
  const tsr_program* const first = *program;
  const tsr_program* p = first;
  const char* missing;
  int32_t i;
  for (i = 1; i < number && p; ++i) p = p->next;
  if (!p || number < 0) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s has no variant %d", first->common.info->name,
                    (int)number);
  }
  missing = tsr_missing_feature(p->features);
  while (missing && number == 0 && p->next) {
    p = p->next;
    missing = tsr_missing_feature(p->features);
  }
  *program = p;
  if (!missing) return tsr_ok();
  return tsr_fail(TSR_UNSUPPORTED, "this machine lacks %s, which %s%s was compiled for (needs %s)",
                  missing, number == 0 && first->next ? "the last variant of " : "",
                  p->common.info->name, p->common.info->features);
}

static tsr_status tsr_open_variant(const tsr_program* program, int32_t number,
                                   const tsr_open_options* options, tsr_context** result) {
  static const tsr_open_options defaults;
  tsr_context* context;
  tsr_status status;
  if (!result) return tsr_fail(TSR_INVALID_ARGUMENT, "no place for the context");
  *result = NULL;
  if (!options) options = &defaults;
  status = tsr_choose(&program, number);
  if (status.code != TSR_OK) return status;
  if (options->host && (options->host->num_workers < 1 || !options->host->parallel_for)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "the host needs parallel_for and at least one worker");
  }
  if (options->threads < 0) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "threads must not be negative, but is %d",
                    (int)options->threads);
  }
  context = (tsr_context*)calloc(1, sizeof *context);
  if (!context) return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a context");
  context->program = program;
  status = tsr_find_weights(&program->common, options, &context->weights);
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

static tsr_status tsr_open(const tsr_program* program, const tsr_open_options* options,
                           tsr_context** result) {
  return tsr_open_variant(program, 0, options, result);
}

static int64_t tsr_memory_bytes(const tsr_context* context) {
  const tsr_model_info* info = context->program->common.info;
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

/* What kernels use: the caller's memory, or an aligned copy of it. */
static tsr_status tsr_stage(tsr_context* context, int32_t slot) {
  const tsr_model_info* info = context->program->common.info;
  const tsr_tensor_info* tensor = tsr_tensor(info, slot);
  unsigned char* data = (unsigned char*)context->given[slot].data;
  context->used[slot] = data;
  if (tsr_aligned(data)) return tsr_ok();
  if (!context->staged[slot]) context->staged[slot] = tsr_allocate(tensor->bytes);
  if (!context->staged[slot]) {
    return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a copy of %s", tensor->name);
  }
  if (slot < info->num_inputs) memcpy(context->staged[slot], data, (size_t)tensor->bytes);
  context->used[slot] = context->staged[slot];
  return tsr_ok();
}

static void* tsr_resolve(const tsr_context* context, const tsr_place* place,
                         unsigned char* memory) {
  switch (place->kind) {
    case TSR_PLACE_INPUT: /* kernels only read inputs and weights; their parameters have one type */
      return context->used[place->index];
    case TSR_PLACE_OUTPUT:
      return context->used[context->program->common.info->num_inputs + place->index];
    case TSR_PLACE_WEIGHTS:
      return (void*)(uintptr_t)(context->weights.bytes + place->offset);
    case TSR_PLACE_ARENA:
      return memory + place->offset;
    default:
      return NULL;
  }
}

static tsr_status tsr_execute(tsr_context* context, unsigned char* memory) {
  const tsr_program* program = context->program;
  const tsr_model_info* info = program->common.info;
  unsigned char* scratch = memory + info->arena_bytes;
  int64_t s, c;
  int32_t i;
  for (s = 0; s < program->num_steps; ++s) {
    const tsr_step* step = &program->steps[s];
    int32_t code;
    for (i = 0; i < step->num_places; ++i) {
      context->params[i] = tsr_resolve(context, &program->places[step->first_place + i], memory);
    }
    if (step->host) {
      const tsr_status status = tsr_call_host(step->host, context->params, scratch);
      if (status.code == TSR_OK) continue;
      return tsr_fail(status.code, "%s: %s", step->name, status.message);
    }
    code = step->kernel(context->params, scratch, context->host);
    if (code != 0) return tsr_fail(TSR_RUN_FAILED, "kernel %s returned %d", step->name, (int)code);
  }
  for (c = 0; c < program->common.num_copies; ++c) {
    const tsr_copy* copy = &program->common.copies[c];
    memcpy(context->used[info->num_inputs + copy->output],
           tsr_resolve(context, &copy->from, memory), (size_t)info->outputs[copy->output].bytes);
  }
  return tsr_ok();
}

/* With what was given. */
static tsr_status tsr_run_given(tsr_context* context, void* memory) {
  const tsr_model_info* info = context->program->common.info;
  const int32_t in = info->num_inputs, all = in + info->num_outputs;
  tsr_status status = tsr_check_indices(&context->program->common, context->given);
  int32_t i;
  if (status.code != TSR_OK) return status;
  if (context->pool) tsr_pool_begin(context->pool);
  if (!memory) memory = tsr_own_memory(context);
  if (!memory) {
    status = tsr_fail(TSR_OUT_OF_MEMORY, "no memory for %lld bytes",
                      (long long)tsr_memory_bytes(context));
  }
  for (i = 0; status.code == TSR_OK && i < all; ++i) status = tsr_stage(context, i);
  if (status.code == TSR_OK) status = tsr_execute(context, (unsigned char*)memory);
  for (i = in; status.code == TSR_OK && i < all; ++i) {
    if (context->used[i] == (unsigned char*)context->given[i].data) continue;
    memcpy(context->given[i].data, context->used[i], (size_t)tsr_tensor(info, i)->bytes);
  }
  if (context->pool) tsr_pool_end(context->pool);
  return status;
}

static tsr_status tsr_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                          void* memory) {
  tsr_status status;
  if (!context) return tsr_fail(TSR_INVALID_ARGUMENT, "no context");
  if (memory && !tsr_aligned(memory)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "the memory must start at a multiple of 64 bytes");
  }
  status = tsr_begin(&context->busy);
  if (status.code != TSR_OK) return status;
  status = tsr_take_pointers(context->program->common.info, inputs, outputs, context->given);
  if (status.code == TSR_OK) status = tsr_run_given(context, memory);
  tsr_end(&context->busy);
  return status;
}

static tsr_status tsr_run_tensors(tsr_context* context, const tsr_dl_tensor* inputs,
                                  const tsr_dl_tensor* outputs, void* stream) {
  tsr_status status;
  if (!context) return tsr_fail(TSR_INVALID_ARGUMENT, "no context");
  if (stream) return tsr_fail(TSR_INVALID_ARGUMENT, "a processor has no streams");
  status = tsr_begin(&context->busy);
  if (status.code != TSR_OK) return status;
  status = tsr_take_tensors(context->program->common.info, inputs, outputs, 0, context->given);
  if (status.code == TSR_OK) status = tsr_run_given(context, NULL);
  tsr_end(&context->busy);
  return status;
}
