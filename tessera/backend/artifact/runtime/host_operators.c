/* Operators without kernels: sequential by nature. They compute what the functions of the same name
 * in tessera/frontend/graph/ops/host.cc do, on one thread. */
#include <stdint.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/runtime/status.c"

#define TSR_INT64_MAX ((int64_t)0x7fffffffffffffffLL)

/* An integer that orders as the element does: equal elements (-0 and 0 among them) have equal keys,
 * NaN is above everything. */
static int64_t tsr_order_key(const tsr_tensor_info* type, const unsigned char* element) {
  uint64_t bits = 0, magnitude, infinity;
  const int32_t width = type->dl_bits;
  memcpy(&bits, element, (size_t)width / 8); /* little-endian, as all our targets are */
  if (type->dl_code == TSR_DL_CODE_FLOAT || type->dl_code == TSR_DL_CODE_BFLOAT) {
    const int fraction = type->dl_code == TSR_DL_CODE_BFLOAT ? 7
                         : width == 16                       ? 10
                         : width == 32                       ? 23
                                                             : 52;
    magnitude = bits & ~(UINT64_C(1) << (width - 1));
    infinity = ((UINT64_C(1) << (width - 1 - fraction)) - 1) << fraction;
    if (magnitude > infinity) return TSR_INT64_MAX;
    return magnitude == bits ? (int64_t)magnitude : -(int64_t)magnitude;
  }
  if (type->dl_code == TSR_DL_CODE_INT && width < 64) {
    const int unused = 64 - width;
    return (int64_t)(bits << unused) >> unused;
  }
  if (type->dl_code == TSR_DL_CODE_UINT && width == 64) bits ^= UINT64_C(1) << 63;
  return (int64_t)bits;
}

static int64_t tsr_product(const int64_t* sizes, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (; begin < end; ++begin) n *= sizes[begin];
  return n;
}

typedef struct tsr_ranked {
  int64_t key, index;
} tsr_ranked;

static int tsr_before(tsr_ranked a, tsr_ranked b) {
  return a.key != b.key ? a.key < b.key : a.index < b.index;
}

/* Of a heap with the last in order at its root: `item` takes the root's place. */
static void tsr_sink(tsr_ranked* heap, int64_t count, tsr_ranked item) {
  int64_t at = 0;
  for (;;) {
    int64_t child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && tsr_before(heap[child], heap[child + 1])) ++child;
    if (!tsr_before(item, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
}

static void tsr_rise(tsr_ranked* heap, int64_t at, tsr_ranked item) {
  while (at > 0 && tsr_before(heap[(at - 1) / 2], item)) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = item;
}

/* integers: axis, k, largest. Scratch: k times tsr_ranked. */
static tsr_status tsr_topk(const tsr_host_call* call, void** params, void* scratch) {
  const tsr_tensor_info* type = &call->operands[0];
  const int32_t axis = (int32_t)call->integers[0];
  const int64_t k = call->integers[1], n = type->shape[axis];
  const int64_t outer = tsr_product(type->shape, 0, axis),
                inner = tsr_product(type->shape, axis + 1, type->rank);
  const size_t width = (size_t)type->dl_bits / 8;
  const unsigned char* x = (const unsigned char*)params[0];
  unsigned char* values = (unsigned char*)params[1];
  int64_t* indices = (int64_t*)params[2];
  tsr_ranked* heap = (tsr_ranked*)scratch;
  int64_t line, i;
  for (line = 0; line < outer * inner && k > 0; ++line) {
    const int64_t first = line / inner * n * inner + line % inner;
    for (i = 0; i < n; ++i) {
      tsr_ranked item;
      item.key = tsr_order_key(type, x + (size_t)(first + i * inner) * width);
      if (call->integers[2]) item.key = ~item.key;
      item.index = i;
      if (i < k) {
        tsr_rise(heap, i, item);
      } else if (tsr_before(item, heap[0])) {
        tsr_sink(heap, k, item);
      }
    }
    for (i = k - 1; i >= 0; --i) {
      const tsr_ranked last = heap[0];
      const int64_t to = line / inner * k * inner + i * inner + line % inner;
      if (i > 0) tsr_sink(heap, i, heap[i]);
      if (values) {
        memcpy(values + (size_t)to * width, x + (size_t)(first + last.index * inner) * width,
               width);
      }
      if (indices) indices[to] = last.index;
    }
  }
  return tsr_ok();
}

/* Of 16-bit floats with so many bits of fraction. */
static float tsr_widen(uint16_t half, int fraction) {
  const int exponents = 15 - fraction;
  const uint32_t exponent = half >> fraction & ((1u << exponents) - 1);
  const int bias = (1 << (exponents - 1)) - 1;
  uint32_t bits = (uint32_t)(half & ((1u << fraction) - 1)) << (23 - fraction), one;
  float value, scale;
  if (exponent == (1u << exponents) - 1) {
    bits |= 0xffu << 23;
  } else if (exponent > 0) {
    bits |= (exponent + (uint32_t)(127 - bias)) << 23;
  } else if (bias == 127) {
    /* subnormal as it stands */
  } else { /* the fraction alone, times the smallest power */
    one = (uint32_t)(128 - bias) << 23;
    bits |= one;
    memcpy(&value, &bits, 4);
    memcpy(&scale, &one, 4);
    value -= scale;
    memcpy(&bits, &value, 4);
  }
  bits |= (uint32_t)(half & 0x8000u) << 16;
  memcpy(&value, &bits, 4);
  return value;
}

/* To the nearest, ties to even. */
static uint16_t tsr_narrow(float value, int fraction) {
  const int exponents = 15 - fraction, bias = (1 << (exponents - 1)) - 1, drop = 23 - fraction;
  const uint32_t infinity = ((1u << exponents) - 1) << fraction;
  uint32_t bits, sign, magnitude, kept, rest, half;
  int shift = drop, exponent;
  memcpy(&bits, &value, 4);
  sign = bits >> 16 & 0x8000u;
  magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | infinity | 1u << (fraction - 1));
  exponent = (int)(magnitude >> 23) - 127 + bias;
  if (exponent >= (1 << exponents) - 1) return (uint16_t)(sign | infinity);
  if (bias < 127 && exponent <= 0) { /* subnormal */
    if (exponent < -fraction) return (uint16_t)sign;
    magnitude = (magnitude & 0x7fffffu) | 0x800000u;
    shift += 1 - exponent;
  } else {
    magnitude -= (uint32_t)(127 - bias) << 23;
  }
  kept = magnitude >> shift;
  rest = magnitude & ((1u << shift) - 1);
  half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  return (uint16_t)(sign | kept);
}

static void tsr_combine_half(unsigned char* to, const unsigned char* from, int sum, int fraction) {
  uint16_t x, y;
  float a, b;
  memcpy(&x, to, 2);
  memcpy(&y, from, 2);
  a = tsr_widen(x, fraction);
  b = tsr_widen(y, fraction);
  x = tsr_narrow(sum ? a + b : a * b, fraction);
  memcpy(to, &x, 2);
}

static void tsr_combine_float(unsigned char* to, const unsigned char* from, int sum) {
  float a, b;
  memcpy(&a, to, 4);
  memcpy(&b, from, 4);
  a = sum ? a + b : a * b;
  memcpy(to, &a, 4);
}

static void tsr_combine_double(unsigned char* to, const unsigned char* from, int sum) {
  double a, b;
  memcpy(&a, to, 8);
  memcpy(&b, from, 8);
  a = sum ? a + b : a * b;
  memcpy(to, &a, 8);
}

static void tsr_combine_integer(unsigned char* to, const unsigned char* from, int sum,
                                size_t width) {
  uint64_t a = 0, b = 0;
  memcpy(&a, to, width);
  memcpy(&b, from, width);
  a = sum ? a + b : a * b;
  memcpy(to, &a, width);
}

static void tsr_combine(const tsr_tensor_info* type, unsigned char* to, const unsigned char* from,
                        int64_t how) {
  const size_t width = (size_t)type->dl_bits / 8;
  const int sum = how == TSR_COMBINE_ADD;
  if (how == TSR_COMBINE_ADD || how == TSR_COMBINE_MUL) {
    if (type->dl_code == TSR_DL_CODE_BFLOAT) {
      tsr_combine_half(to, from, sum, 7);
    } else if (type->dl_code == TSR_DL_CODE_BOOL) {
      *to = sum ? *to | *from : *to & *from;
    } else if (type->dl_code != TSR_DL_CODE_FLOAT) {
      tsr_combine_integer(to, from, sum, width);
    } else if (width == 2) {
      tsr_combine_half(to, from, sum, 10);
    } else if (width == 4) {
      tsr_combine_float(to, from, sum);
    } else {
      tsr_combine_double(to, from, sum);
    }
    return;
  }
  if (how == TSR_COMBINE_MIN && tsr_order_key(type, from) >= tsr_order_key(type, to)) return;
  if (how == TSR_COMBINE_MAX && tsr_order_key(type, from) <= tsr_order_key(type, to)) return;
  memcpy(to, from, width);
}

static int64_t tsr_read_index(const tsr_tensor_info* type, const unsigned char* data, int64_t i) {
  int64_t wide;
  int32_t narrow;
  if (type->dl_bits == 64) {
    memcpy(&wide, data + 8 * i, 8);
    return wide;
  }
  memcpy(&narrow, data + 4 * i, 4);
  return narrow;
}

static tsr_status tsr_outside(int64_t index, int64_t size) {
  return tsr_fail(TSR_INVALID_ARGUMENT, "index %lld is outside a dimension of size %lld",
                  (long long)index, (long long)size);
}

/* integers: axis, how to combine. Operands: x, indices, updates, result. */
static tsr_status tsr_scatter_elements(const tsr_host_call* call, void** params, void* scratch) {
  const tsr_tensor_info *x = &call->operands[0], *by = &call->operands[1];
  const int32_t axis = (int32_t)call->integers[0];
  const size_t width = (size_t)x->dl_bits / 8;
  const int64_t count = tsr_product(by->shape, 0, by->rank), size = x->shape[axis];
  unsigned char* out = (unsigned char*)params[3];
  int64_t i;
  (void)scratch;
  if (!out) return tsr_ok();
  memcpy(out, params[0], (size_t)x->bytes);
  for (i = 0; i < count; ++i) {
    int64_t index = tsr_read_index(by, (const unsigned char*)params[1], i), to = 0, stride = 1,
            rest = i;
    int32_t d;
    if (index < -size || index >= size) return tsr_outside(index, size);
    if (index < 0) index += size;
    for (d = x->rank - 1; d >= 0; --d) {
      to += (d == axis ? index : rest % by->shape[d]) * stride;
      rest /= by->shape[d];
      stride *= x->shape[d];
    }
    tsr_combine(x, out + (size_t)to * width, (const unsigned char*)params[2] + (size_t)i * width,
                call->integers[1]);
  }
  return tsr_ok();
}

/* integers: how to combine. Operands: x, indices[.., depth], updates, result. */
static tsr_status tsr_scatter_nd(const tsr_host_call* call, void** params, void* scratch) {
  const tsr_tensor_info *x = &call->operands[0], *by = &call->operands[1];
  const int32_t depth = (int32_t)by->shape[by->rank - 1];
  const size_t width = (size_t)x->dl_bits / 8;
  const int64_t run = tsr_product(x->shape, depth, x->rank),
                tuples = run == 0 ? 0 : tsr_product(by->shape, 0, by->rank - 1);
  unsigned char* out = (unsigned char*)params[3];
  int64_t t, j;
  (void)scratch;
  if (!out) return tsr_ok();
  memcpy(out, params[0], (size_t)x->bytes);
  for (t = 0; t < tuples; ++t) {
    int64_t to = 0;
    int32_t d;
    for (d = 0; d < depth; ++d) {
      int64_t index = tsr_read_index(by, (const unsigned char*)params[1], t * depth + d);
      if (index < -x->shape[d] || index >= x->shape[d]) return tsr_outside(index, x->shape[d]);
      if (index < 0) index += x->shape[d];
      to += index * tsr_product(x->shape, d + 1, x->rank);
    }
    for (j = 0; j < run; ++j) {
      tsr_combine(x, out + (size_t)(to + j) * width,
                  (const unsigned char*)params[2] + (size_t)(t * run + j) * width,
                  call->integers[0]);
    }
  }
  return tsr_ok();
}

static tsr_status tsr_call_host(const tsr_host_call* call, void** params, void* scratch) {
  switch (call->function) {
    case TSR_HOST_TOPK:
      return tsr_topk(call, params, scratch);
    case TSR_HOST_SCATTER_ELEMENTS:
      return tsr_scatter_elements(call, params, scratch);
    case TSR_HOST_SCATTER_ND:
      return tsr_scatter_nd(call, params, scratch);
    default:
      return tsr_fail(TSR_INTERNAL, "unknown operator %d", (int)call->function);
  }
}
