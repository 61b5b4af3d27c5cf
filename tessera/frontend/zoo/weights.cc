#include "tessera/frontend/zoo/weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/support/check.h"
#include "tessera/support/rng.h"

namespace tessera::zoo {
namespace {

std::uint64_t seed_of(const std::string& name) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

// Two floats in [-1, 1) from one number.
float high_half(std::uint64_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f;
}
float low_half(std::uint64_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits & 0xffffffffu)) * 0x1p-31f;
}

// Shifts and scales a row as Fill says.
void standardize(float* out, std::int64_t n, const Fill& fill) {
  float sum = 0;
  float squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = out[i] - static_cast<float>(fill.centre);
    sum += x;
    squares += x * x;
  }
  const auto count = static_cast<float>(n);
  const float excess = fill.centred ? sum / count : 0;
  const float variance = squares / count - excess * excess;
  if (!(variance > 0)) return;
  const float scale = static_cast<float>(fill.half_width / std::sqrt(3.0)) / std::sqrt(variance);
  const auto centre = static_cast<float>(fill.centre);
  for (std::int64_t i = 0; i < n; ++i) out[i] = centre + (out[i] - centre - excess) * scale;
}

void fill_row(float* out, std::int64_t n, Rng& rng, const Fill& fill) {
  const auto centre = static_cast<float>(fill.centre);
  const auto width = static_cast<float>(fill.half_width);
  for (std::int64_t i = 0; i + 1 < n; i += 2) {
    const std::uint64_t bits = rng.next();
    out[i] = centre + width * high_half(bits);
    out[i + 1] = centre + width * low_half(bits);
  }
  if (n % 2 != 0) out[n - 1] = centre + width * high_half(rng.next());
  if (fill.row > 1) standardize(out, n, fill);
}

}  // namespace

Fill spread(double standard_deviation) {
  return {.half_width = standard_deviation * std::sqrt(3.0)};
}

Fill spread_filters(double standard_deviation, std::int64_t row, bool centred) {
  return {.half_width = standard_deviation * std::sqrt(3.0), .row = row, .centred = centred};
}

void fill_random(HostTensor& tensor, const std::string& name, const Fill& fill) {
  const DType dtype = tensor.dtype();
  TESSERA_CHECK(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16,
                "weights of {}", to_text(dtype));
  constexpr std::int64_t kPiece = 16384;  // floats at a time where rows do not matter: fits L1
  Rng rng(seed_of(name));
  const std::int64_t size = tensor.size();
  const std::int64_t row = fill.row > 0 ? fill.row : kPiece;
  std::vector<float> piece;
  for (std::int64_t at = 0; at < size; at += row) {
    const std::int64_t n = std::min(row, size - at);
    if (dtype == DType::kF32) {
      fill_row(tensor.as<float>() + at, n, rng, fill);
      continue;
    }
    piece.resize(static_cast<std::size_t>(n));
    fill_row(piece.data(), n, rng, fill);
    std::transform(piece.begin(), piece.end(), tensor.as<std::uint16_t>() + at,
                   dtype == DType::kF16 ? f32_to_f16 : f32_to_bf16);
  }
}

}  // namespace tessera::zoo
