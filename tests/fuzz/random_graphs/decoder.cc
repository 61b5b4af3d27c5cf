// Attention and tables of language models, of domain com.microsoft.
#include "draw.h"

namespace tessera::fuzz {
namespace {

constexpr Range kSmall = within(-3, 3);

bool grouped_attention(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), kv = d.between(1, 2), heads = kv * d.between(1, 2),
                     n = d.between(1, 4), past = d.between(0, 4), half = d.between(1, 3);
  const std::int64_t size = 2 * half, total = past + n;
  const DType t = d.type(row.types);
  const bool packed = d.chance(0.5), rotary = d.chance(0.6), bias = d.chance(0.3);
  Names in = {d.shaped(t, {b, n, (heads + (packed ? 2 * kv : 0)) * size}, kSmall)};
  for (int i = 0; i < 2; ++i) in.push_back(packed ? "" : d.shaped(t, {b, n, kv * size}, kSmall));
  for (int i = 0; i < 2; ++i)
    in.push_back(past == 0 ? "" : d.shaped(t, {b, kv, past, size}, kSmall));
  in.push_back(d.fresh(DType::kI32, {b},
                       within(static_cast<double>(n - 1), static_cast<double>(total - 1))));
  in.push_back(d.scalar(DType::kI32, static_cast<double>(total)));
  for (int i = 0; i < 2; ++i) in.push_back(rotary ? d.weight(t, {total + 1, half}) : "");
  in.push_back("");
  in.push_back(bias ? d.shaped(t, {1, heads, n, total}, kSmall) : "");
  if (d.chance(0.3)) in.push_back(d.weight(t, {heads}));
  return d.emit(row.name, in,
                {attr("num_heads", heads), attr("kv_num_heads", kv), attr("do_rotary", rotary),
                 attr("rotary_interleaved", d.chance(0.4)),
                 attr("local_window_size", d.chance(0.4) ? d.between(1, 3) : -1),
                 attr("softcap", d.chance(0.3) ? 2.0F : 0.0F)},
                3, row.domain);
}

// A mask of one of the forms for b sequences, n queries and m keys, or none.
std::string padding(Draw& d, std::int64_t b, std::int64_t n, std::int64_t m) {
  const auto lengths = [&](std::int64_t count) {
    return d.fresh(DType::kI32, {count}, within(0, static_cast<double>(m)));
  };
  switch (d.between(0, 4)) {
    case 0:
      return lengths(b);
    case 1:
      return lengths(2 * b);
    case 2:
      return d.fresh(DType::kI32, {b, m}, within(0, 1));
    case 3:
      return d.fresh(DType::kI32, {b, n, m}, within(0, 1));
    default:
      return "";
  }
}

bool multi_head_attention(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), heads = d.between(1, 3), n = d.between(1, 4),
                     past = d.between(0, 3), size = d.between(1, 4);
  const std::int64_t width = heads * size, total = past + n;
  const DType t = d.type(row.types);
  const bool packed = d.chance(0.3);
  Names in = {d.shaped(t, packed ? Shape{b, n, heads, 3, size} : Shape{b, n, width}, kSmall)};
  for (int i = 0; i < 2; ++i) in.push_back(packed ? "" : d.shaped(t, {b, n, width}, kSmall));
  in.push_back(d.chance(0.5) ? d.weight(t, {3 * width}) : "");
  in.push_back(padding(d, b, n, total));
  in.push_back(d.chance(0.3) ? d.shaped(t, {b, 1, n, total}, kSmall) : "");
  for (int i = 0; past > 0 && i < 2; ++i) in.push_back(d.shaped(t, {b, heads, past, size}, kSmall));
  return d.emit(row.name, in,
                {attr("num_heads", heads), attr("unidirectional", d.chance(0.4)),
                 attr("mask_filter_value", -100.0F)},
                3, row.domain);
}

bool attention_of_weights(Draw& d, const OpRow& row) {
  const std::int64_t heads = d.between(1, 3), width = heads * d.between(1, 4);
  const std::string x = d.any(d.type(row.types), {3, 3}, kSmall);
  const Shape s = d.shape(x);
  const DType t = d.dtype(x);
  return d.emit(row.name,
                {x, d.weight(t, {s[2], 3 * width}), d.chance(0.7) ? d.weight(t, {3 * width}) : "",
                 padding(d, s[0], s[1], s[1])},
                {attr("num_heads", heads), attr("unidirectional", d.chance(0.4)),
                 attr("mask_filter_value", -100.0F)},
                1, row.domain);
}

bool rotary_rows(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), h = d.between(1, 3), n = d.between(1, 4),
                     half = d.between(1, 4);
  const DType t = d.type(row.types);
  const std::string positions =
      d.fresh(DType::kI64, d.chance(0.3) ? Shape{1} : Shape{b, n}, within(0, 4));
  return d.emit(row.name,
                {d.shaped(t, {b, n, h * 2 * half}), positions, d.weight(t, {9, half}),
                 d.weight(t, {9, half})},
                {attr("interleaved", d.chance(0.5))}, 1, row.domain);
}

bool block_gather(Draw& d, const OpRow& row) {
  const std::int64_t words = d.between(1, 9), bits = d.chance(0.5) ? 4 : 8,
                     width = 2 * d.between(1, 20), blocks = (width + 15) / 16;
  const std::string table = d.constant(d.tensor(DType::kU8, {words, width * bits / 8}, kFree));
  Names in = {table,
              d.fresh(DType::kI64, {d.between(1, 3), d.between(1, 3)},
                      within(static_cast<double>(-words), static_cast<double>(words))),
              d.weight(d.type(row.types), {words, blocks})};
  if (d.chance(0.5))
    in.push_back(d.constant(d.tensor(DType::kU8, {words, (blocks * bits + 7) / 8}, kFree)));
  return d.emit(row.name, in, {attr("bits", bits), attr("block_size", 16)}, 1, row.domain);
}

bool experts(Draw& d, const OpRow& row) {
  const std::int64_t count = d.between(1, 4), inner = d.between(1, 5);
  const std::string x = d.any(d.type(row.types), {2, 2}, kSmall);
  const Shape s = d.shape(x);
  const DType t = d.dtype(x);
  if (s[1] == 0) return false;
  return d.emit(row.name,
                {x, d.fresh(t, {s[0], count}, kSmall), d.weight(t, {count, inner, s[1]}),
                 d.weight(t, {count, inner}), d.weight(t, {count, s[1], inner})},
                {attr("k", d.between(1, count)), attr("activation_type", std::string("silu")),
                 attr("normalize_routing_weights", d.chance(0.5))},
                1, row.domain);
}

}  // namespace

std::vector<OpRow> decoder_rows() {
  constexpr Types kUsual = bit(DType::kF32) | bit(DType::kF16);
  return {
      {"GroupQueryAttention", kUsual, grouped_attention, 1, kFree, {}, kMicrosoft},
      {"MultiHeadAttention", kUsual, multi_head_attention, 1, kFree, {}, kMicrosoft},
      {"Attention", kUsual, attention_of_weights, 1, kFree, {}, kMicrosoft},
      {"RotaryEmbedding", kUsual, rotary_rows, 1, kFree, {}, kMicrosoft},
      {"GatherBlockQuantized", kUsual, block_gather, 1, kFree, {}, kMicrosoft},
      {"MoE", kF32Only, experts, 1, kFree, {}, kMicrosoft},
  };
}

}  // namespace tessera::fuzz
