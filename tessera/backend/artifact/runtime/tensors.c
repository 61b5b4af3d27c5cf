/* What a caller gives to a run: pointers or DLPack tensors, checked. */
#include <stdint.h>

#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/runtime/status.c"

typedef struct tsr_given {
  void* data;
  int64_t bytes; /* of the range that must not overlap others; a handle has one */
  int32_t on_device;
} tsr_given;

/* How a place for the tensor of that number is called: inputs first, then outputs. */
static const tsr_tensor_info* tsr_tensor(const tsr_model_info* info, int32_t slot) {
  return slot < info->num_inputs ? &info->inputs[slot] : &info->outputs[slot - info->num_inputs];
}

static int tsr_overlap(const tsr_given* a, const tsr_given* b) {
  const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
  return a->bytes > 0 && b->bytes > 0 && x < y + (uintptr_t)b->bytes && y < x + (uintptr_t)a->bytes;
}

/* Kernels write an output while inputs and other outputs are still read. */
static tsr_status tsr_check_overlap(const tsr_model_info* info, const tsr_given* given) {
  const int32_t in = info->num_inputs;
  int32_t o, i;
  for (o = in; o < in + info->num_outputs; ++o) {
    for (i = 0; i < o; ++i) {
      const char *a = tsr_tensor(info, o)->name, *b = tsr_tensor(info, i)->name;
      if (!tsr_overlap(&given[o], &given[i])) continue;
      if (i < in) return tsr_fail(TSR_INVALID_ARGUMENT, "output %s overlaps input %s", a, b);
      return tsr_fail(TSR_INVALID_ARGUMENT, "outputs %s and %s overlap", b, a);
    }
  }
  return tsr_ok();
}

/* Addresses of this process. */
static tsr_status tsr_take_pointers(const tsr_model_info* info, const void* const* inputs,
                                    void* const* outputs, tsr_given* given) {
  int32_t i;
  if ((!inputs && info->num_inputs > 0) || (!outputs && info->num_outputs > 0)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "no inputs or no outputs given");
  }
  for (i = 0; i < info->num_inputs + info->num_outputs; ++i) {
    const tsr_tensor_info* tensor = tsr_tensor(info, i);
    given[i].data =
        i < info->num_inputs ? (void*)(uintptr_t)inputs[i] : outputs[i - info->num_inputs];
    given[i].bytes = tensor->bytes;
    given[i].on_device = 0;
    if (!given[i].data && tensor->bytes > 0) {
      return tsr_fail(TSR_INVALID_ARGUMENT, "no memory given for %s", tensor->name);
    }
  }
  return tsr_check_overlap(info, given);
}

static int tsr_is_dense(const tsr_tensor_info* want, const int64_t* strides) {
  int64_t stride = 1;
  int32_t d;
  for (d = want->rank; strides && d-- > 0;) {
    if (want->shape[d] != 1 && strides[d] != stride) return 0;
    stride *= want->shape[d];
  }
  return 1;
}

/* Where it is: in this process, on the device of the model, or neither (-1). */
static int32_t tsr_side(const tsr_model_info* info, tsr_dl_device device, int32_t ordinal) {
  if (device.device_type == TSR_DL_CPU || device.device_type == TSR_DL_CUDA_HOST) return 0;
  if (device.device_type == TSR_DL_CUDA_MANAGED && info->device_type == TSR_DL_CUDA) return 1;
  return device.device_type == info->device_type && device.device_id == ordinal ? 1 : -1;
}

static tsr_status tsr_check_tensor(const tsr_tensor_info* want, const tsr_dl_tensor* t) {
  int32_t d;
  if (t->dtype.code != want->dl_code || t->dtype.bits != want->dl_bits || t->dtype.lanes != 1) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s must be %s, not DLPack type %d/%d/%d", want->name,
                    want->dtype, t->dtype.code, t->dtype.bits, t->dtype.lanes);
  }
  if (t->ndim != want->rank || (want->rank > 0 && !t->shape)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s must have %d dimensions, not %d", want->name,
                    (int)want->rank, (int)t->ndim);
  }
  for (d = 0; d < want->rank; ++d) {
    if (t->shape[d] == want->shape[d]) continue;
    return tsr_fail(TSR_INVALID_ARGUMENT, "dimension %d of %s must be %lld, not %lld", (int)d,
                    want->name, (long long)want->shape[d], (long long)t->shape[d]);
  }
  if (!tsr_is_dense(want, t->strides)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "%s must be row-major without gaps", want->name);
  }
  if (!t->data && want->bytes > 0) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "no memory given for %s", want->name);
  }
  return tsr_ok();
}

/* `ordinal`: of the device that the model runs on. */
static tsr_status tsr_take_tensors(const tsr_model_info* info, const tsr_dl_tensor* inputs,
                                   const tsr_dl_tensor* outputs, int32_t ordinal,
                                   tsr_given* given) {
  int32_t i;
  if ((!inputs && info->num_inputs > 0) || (!outputs && info->num_outputs > 0)) {
    return tsr_fail(TSR_INVALID_ARGUMENT, "no inputs or no outputs given");
  }
  for (i = 0; i < info->num_inputs + info->num_outputs; ++i) {
    const tsr_tensor_info* want = tsr_tensor(info, i);
    const tsr_dl_tensor* t = i < info->num_inputs ? &inputs[i] : &outputs[i - info->num_inputs];
    const tsr_status status = tsr_check_tensor(want, t);
    if (status.code != TSR_OK) return status;
    given[i].on_device = tsr_side(info, t->device, ordinal);
    if (given[i].on_device < 0) {
      return tsr_fail(TSR_INVALID_ARGUMENT,
                      "%s is on DLPack device %d:%d; the model takes memory of the host (1) and of "
                      "its own device %d:%d",
                      want->name, (int)t->device.device_type, (int)t->device.device_id,
                      (int)info->device_type, (int)ordinal);
    }
    given[i].data = t->data;
    given[i].bytes = want->bytes;
    if (given[i].on_device && info->device_type == TSR_DL_OPENCL) {
      if (t->byte_offset != 0) {
        return tsr_fail(TSR_INVALID_ARGUMENT, "%s: an OpenCL tensor must begin at its cl_mem",
                        want->name);
      }
      given[i].bytes = want->bytes > 0;
    } else if (t->data) {
      given[i].data = (unsigned char*)t->data + t->byte_offset;
    }
  }
  return tsr_check_overlap(info, given);
}

/* Kernels clamp indices, so wrong ones are found here; those in memory of a device are not. */
static tsr_status tsr_check_indices(const tsr_common* common, const tsr_given* given) {
  int64_t c, i;
  for (c = 0; c < common->num_index_checks; ++c) {
    const tsr_index_check* check = &common->index_checks[c];
    const tsr_tensor_info* tensor = &common->info->inputs[check->input];
    const int wide = tensor->dl_bits == 64;
    const int64_t count = tensor->bytes / (wide ? 8 : 4);
    const unsigned char* data = (const unsigned char*)given[check->input].data;
    if (given[check->input].on_device) continue;
    for (i = 0; i < count; ++i) {
      const int64_t n = check->sizes[check->num_sizes == 1 ? 0 : i % check->num_sizes];
      int64_t value;
      if (wide) {
        memcpy(&value, data + 8 * i, 8);
      } else {
        int32_t narrow;
        memcpy(&narrow, data + 4 * i, 4);
        value = narrow;
      }
      if (value >= -n && value < n) continue;
      return tsr_fail(TSR_INVALID_ARGUMENT,
                      "%s: index %lld (element %lld of input '%s') is outside a dimension of size "
                      "%lld",
                      check->node, (long long)value, (long long)i, tensor->name, (long long)n);
    }
  }
  return tsr_ok();
}
