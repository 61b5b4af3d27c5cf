/* Opening and running the program of an artifact on a GPU. */
#include <stdlib.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/device.h"
#include "tessera/backend/artifact/runtime/tensors.c"
#include "tessera/backend/artifact/runtime/weights.c"

struct tsr_context {
  const tsr_device_program* program;
  tsr_device* device;
  void *weights, *arena; /* in the memory of the device */
  void** memory;         /* of each place; those of inputs and outputs are set by each run */
  tsr_given* given;      /* of this run: inputs, then outputs */
  void** staged;         /* own memory on the device for them; NULL: not needed yet */
  void** slots;          /* what kernels read and write: the given or the own */
  int32_t busy;
};

static int32_t tsr_num_slots(const tsr_context* context) {
  return context->program->common.info->num_inputs + context->program->common.info->num_outputs;
}

static tsr_device_base* tsr_base(const tsr_context* context) {
  return (tsr_device_base*)(void*)context->device;
}

static int tsr_is_part(const tsr_place* place) {
  return (place->kind == TSR_PLACE_WEIGHTS || place->kind == TSR_PLACE_ARENA) && place->bytes > 0;
}

static void tsr_free_memory(tsr_context* context) {
  int64_t p;
  int32_t i;
  /* The last one first: an OpenCL driver (NVIDIA's 580) crashes if parts that overlap are released
   * in the order that they were made in. */
  for (p = context->memory ? context->program->num_places - 1 : -1; p >= 0; --p) {
    if (tsr_is_part(&context->program->places[p]) && context->memory[p])
      tsr_device_free(context->device, context->memory[p], 1);
  }
  for (i = 0; context->staged && i < tsr_num_slots(context); ++i) {
    if (context->staged[i]) tsr_device_free(context->device, context->staged[i], 0);
  }
  if (context->arena) tsr_device_free(context->device, context->arena, 0);
  if (context->weights) tsr_device_free(context->device, context->weights, 0);
}

static void tsr_close(tsr_context* context) {
  if (!context) return;
  if (context->device) {
    if (tsr_device_enter(context->device).code == TSR_OK) {
      tsr_device_drop_kernels(context->device);
      tsr_free_memory(context);
      tsr_device_leave(context->device);
    }
    tsr_device_close(context->device);
  }
  free(context->device);
  free(context->memory);
  free(context->given);
  free(context->staged);
  free(context->slots);
  free(context);
}

static int tsr_allocate_tables(tsr_context* context) {
  const size_t slots = (size_t)tsr_num_slots(context) + 1;
  context->device = (tsr_device*)calloc(1, tsr_device_size());
  context->memory = (void**)calloc((size_t)context->program->num_places + 1, sizeof(void*));
  context->given = (tsr_given*)calloc(slots, sizeof *context->given);
  context->staged = (void**)calloc(slots, sizeof(void*));
  context->slots = (void**)calloc(slots, sizeof(void*));
  if (!context->device) return 0;
  tsr_base(context)->program = context->program;
  return context->memory && context->given && context->staged && context->slots;
}

static tsr_status tsr_upload_weights(tsr_context* context, const tsr_open_options* options) {
  const tsr_common* common = &context->program->common;
  const int64_t bytes = common->info->weights_bytes;
  tsr_weights weights = {NULL, NULL};
  tsr_status status = tsr_find_weights(common, options, &weights);
  if (status.code == TSR_OK && bytes > 0) {
    status = tsr_device_allocate(context->device, bytes, &context->weights);
    if (status.code == TSR_OK) {
      status = tsr_device_upload(context->device, tsr_base(context)->stream, context->weights,
                                 weights.bytes, bytes);
    }
    if (status.code == TSR_OK) {
      status = tsr_device_wait(context->device, tsr_base(context)->stream);
    }
  }
  tsr_release_weights(common, &weights);
  return status;
}

/* Weights and arena, and the places in them. */
static tsr_status tsr_place_memory(tsr_context* context, const tsr_open_options* options) {
  const tsr_device_program* program = context->program;
  const int64_t arena_bytes = program->common.info->arena_bytes;
  tsr_status status = tsr_upload_weights(context, options);
  int64_t p;
  if (status.code == TSR_OK && arena_bytes > 0) {
    status = tsr_device_allocate(context->device, arena_bytes, &context->arena);
  }
  for (p = 0; status.code == TSR_OK && p < program->num_places; ++p) {
    const tsr_place* place = &program->places[p];
    void* whole = place->kind == TSR_PLACE_WEIGHTS ? context->weights : context->arena;
    if (!tsr_is_part(place)) continue;
    status =
        tsr_device_part(context->device, whole, place->offset, place->bytes, &context->memory[p]);
  }
  return status;
}

static tsr_status tsr_open(const tsr_device_program* program, const tsr_open_options* options,
                           tsr_context** result) {
  static const tsr_open_options defaults;
  tsr_context* context;
  tsr_status status;
  if (!result) return tsr_fail(TSR_INVALID_ARGUMENT, "no place for the context");
  *result = NULL;
  if (!options) options = &defaults;
  context = (tsr_context*)calloc(1, sizeof *context);
  if (!context) return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a context");
  context->program = program;
  status = tsr_allocate_tables(context) ? tsr_device_open(context->device, options)
                                        : tsr_fail(TSR_OUT_OF_MEMORY, "no memory for a context");
  if (status.code == TSR_OK) status = tsr_device_enter(context->device);
  if (status.code == TSR_OK) {
    status = tsr_place_memory(context, options);
    tsr_device_leave(context->device);
  }
  if (status.code != TSR_OK) {
    tsr_close(context);
    return status;
  }
  *result = context;
  return status;
}

/* Of this process: none. */
static int64_t tsr_memory_bytes(const tsr_context* context) {
  (void)context;
  return 0;
}

static tsr_status tsr_enqueue(tsr_context* context, void* stream) {
  const tsr_device_program* program = context->program;
  const tsr_model_info* info = program->common.info;
  tsr_status status = tsr_ok();
  int64_t i;
  for (i = 0; status.code == TSR_OK && i < program->num_launches; ++i) {
    status = tsr_device_launch(context->device, stream, i, context->memory);
  }
  for (i = 0; status.code == TSR_OK && i < program->common.num_copies; ++i) {
    const tsr_copy* copy = &program->common.copies[i];
    const int64_t bytes = info->outputs[copy->output].bytes;
    void* from = context->arena;
    if (copy->from.kind == TSR_PLACE_INPUT) from = context->slots[copy->from.index];
    if (copy->from.kind == TSR_PLACE_OUTPUT)
      from = context->slots[info->num_inputs + copy->from.index];
    if (copy->from.kind == TSR_PLACE_WEIGHTS) from = context->weights;
    if (bytes == 0) continue;
    status =
        tsr_device_copy(context->device, stream, context->slots[info->num_inputs + copy->output],
                        from, copy->from.offset, bytes);
  }
  return status;
}

/* What kernels use: the caller's memory on the device, or the context's own. */
static tsr_status tsr_stage(tsr_context* context, void* stream, int32_t slot) {
  const tsr_model_info* info = context->program->common.info;
  const tsr_given* given = &context->given[slot];
  const int64_t bytes = tsr_tensor(info, slot)->bytes;
  tsr_status status = tsr_ok();
  context->slots[slot] = given->data;
  if (bytes > 0 && given->on_device) {
    status = tsr_device_check(context->device, tsr_tensor(info, slot), given->data);
    if (status.code != TSR_OK) return status;
  }
  if (bytes == 0 || (given->on_device && tsr_device_in_place(given->data))) return status;
  if (!context->staged[slot]) {
    status = tsr_device_allocate(context->device, bytes, &context->staged[slot]);
    if (status.code != TSR_OK) return status;
  }
  context->slots[slot] = context->staged[slot];
  if (slot >= info->num_inputs) return status;
  if (given->on_device)
    return tsr_device_copy(context->device, stream, context->staged[slot], given->data, 0, bytes);
  return tsr_device_upload(context->device, stream, context->staged[slot], given->data, bytes);
}

static tsr_status tsr_give_back(tsr_context* context, void* stream, int32_t slot) {
  const tsr_given* given = &context->given[slot];
  const int64_t bytes = tsr_tensor(context->program->common.info, slot)->bytes;
  void* used = context->slots[slot];
  if (bytes == 0) return tsr_ok();
  if (!given->on_device)
    return tsr_device_download(context->device, stream, given->data, used, bytes);
  if (used == given->data) return tsr_ok();
  return tsr_device_copy(context->device, stream, given->data, used, 0, bytes);
}

/* With what was given. Waits, unless the stream is the caller's and all tensors are on the device.
 */
static tsr_status tsr_run_given(tsr_context* context, void* stream) {
  const tsr_device_program* program = context->program;
  const int32_t in = program->common.info->num_inputs, all = tsr_num_slots(context);
  tsr_status status = tsr_check_indices(&program->common, context->given);
  int wait = stream == NULL;
  int64_t p;
  int32_t i;
  if (status.code == TSR_OK) status = tsr_device_enter(context->device);
  if (status.code != TSR_OK) return status;
  if (!stream) stream = tsr_base(context)->stream;
  for (i = 0; status.code == TSR_OK && i < all; ++i) {
    status = tsr_stage(context, stream, i);
    wait = wait || !context->given[i].on_device;
  }
  for (p = 0; p < program->num_places; ++p) {
    const tsr_place* place = &program->places[p];
    if (place->kind == TSR_PLACE_INPUT) context->memory[p] = context->slots[place->index];
    if (place->kind == TSR_PLACE_OUTPUT) context->memory[p] = context->slots[in + place->index];
  }
  if (status.code == TSR_OK) {
    status = tsr_device_run(context->device, stream, context, context->slots);
  }
  for (i = in; status.code == TSR_OK && i < all; ++i) status = tsr_give_back(context, stream, i);
  if (status.code == TSR_OK && wait) status = tsr_device_wait(context->device, stream);
  tsr_device_leave(context->device);
  return status;
}

static tsr_status tsr_run(tsr_context* context, const void* const* inputs, void* const* outputs,
                          void* memory) {
  tsr_status status;
  (void)memory;
  if (!context) return tsr_fail(TSR_INVALID_ARGUMENT, "no context");
  status = tsr_begin(&context->busy);
  if (status.code != TSR_OK) return status;
  status = tsr_take_pointers(context->program->common.info, inputs, outputs, context->given);
  if (status.code == TSR_OK) status = tsr_run_given(context, NULL);
  tsr_end(&context->busy);
  return status;
}

static tsr_status tsr_run_tensors(tsr_context* context, const tsr_dl_tensor* inputs,
                                  const tsr_dl_tensor* outputs, void* stream) {
  tsr_status status;
  if (!context) return tsr_fail(TSR_INVALID_ARGUMENT, "no context");
  status = tsr_begin(&context->busy);
  if (status.code != TSR_OK) return status;
  status = tsr_take_tensors(context->program->common.info, inputs, outputs,
                            tsr_base(context)->ordinal, context->given);
  if (status.code == TSR_OK) status = tsr_run_given(context, stream);
  tsr_end(&context->busy);
  return status;
}
