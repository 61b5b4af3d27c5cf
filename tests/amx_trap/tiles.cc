#include "tests/amx_trap/tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tessera/support/dtype.h"

namespace tessera::testing {
namespace {

constexpr std::uint32_t kSign = 0x80000000, kInfinity = 0x7f800000, kQuiet = 0x00400000;
constexpr std::uint32_t kIndefinite = 0xffc00000;  // the NaN of invalid operations
constexpr float kLeastNormal = 0x1p-126F;

// Numbers below the normal ones count as zero.
float flush(float x) { return std::fabs(x) < kLeastNormal ? std::copysign(0.0F, x) : x; }

bool is_nan(float x) { return (std::bit_cast<std::uint32_t>(x) & ~kSign) > kInfinity; }

float quiet(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) | kQuiet); }

// To the nearest float, ties to even. What is not normal after rounding to 24 bits is zero.
float round_to_float(double x) {
  if (std::fabs(x) < 0x1p-125) {
    constexpr double kUp = 0x1p100;
    if (std::fabs(static_cast<float>(x * kUp)) < static_cast<float>(kUp) * kLeastNormal)
      return static_cast<float>(std::copysign(0.0, x));
  }
  return static_cast<float>(x);
}

// x * y + z, rounded once. The product has at most 24 bits and lies in the range of double; a sum
// of two such numbers that is rounded to the 53 bits of a double and then to 24 is the same as one
// rounded at once. Of several NaN the first of x, y and z counts.
float fused(float x, float y, float z) {
  for (const float v : {x, y, z}) {
    if (is_nan(v)) return quiet(v);
  }
  const double out = static_cast<double>(flush(x)) * flush(y) + flush(z);
  return std::isnan(out) ? std::bit_cast<float>(kIndefinite) : round_to_float(out);
}

float add(float x, float y) {
  for (const float v : {x, y}) {
    if (is_nan(v)) return quiet(v);
  }
  const double out = static_cast<double>(flush(x)) + flush(y);
  return std::isnan(out) ? std::bit_cast<float>(kIndefinite) : round_to_float(out);
}

template <class T>
T read(const std::uint8_t* from) {
  T out;
  std::memcpy(&out, from, sizeof(T));
  return out;
}

template <class T>
void write(std::uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

float bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

const char* refuse_config(const TileConfig& c) {
  const auto any = [](const auto* from, const auto* end) {
    return std::any_of(from, end, [](auto v) { return v != 0; });
  };
  if (c.palette > 1) return "a palette other than 0 and 1";
  if (c.palette == 0) return nullptr;
  if (any(std::begin(c.zero), std::end(c.zero)) ||
      any(c.row_bytes + kTiles, std::end(c.row_bytes)) || any(c.rows + kTiles, std::end(c.rows)))
    return "reserved bytes that are not zero";
  for (int t = 0; t < kTiles; ++t) {
    if (c.row_bytes[t] > kTileRowBytes) return "a tile with rows of more than 64 bytes";
    if (c.rows[t] > kTileRows) return "a tile with more than 16 rows";
    if ((c.rows[t] == 0) != (c.row_bytes[t] == 0)) return "a tile with rows or bytes only";
  }
  return nullptr;
}

}  // namespace

const char* Tiles::configure(const void* from) {
  TileConfig config;
  std::memcpy(&config, from, sizeof(config));
  if (const char* why = refuse_config(config)) return why;
  release();
  if (config.palette != 0) config_ = config;
  return nullptr;
}

void Tiles::store_config(void* to) const { std::memcpy(to, &config_, sizeof(config_)); }

void Tiles::release() {
  config_ = {};
  tiles_ = {};
}

const char* Tiles::refuse(int tile) const {
  if (config_.palette == 0) return "no configuration of tiles";
  return config_.rows[tile] == 0 ? "a tile that is not configured" : nullptr;
}

// Instructions that read or write elements.
const char* Tiles::refuse_elements(int tile) const {
  if (const char* why = refuse(tile)) return why;
  return config_.row_bytes[tile] % 4 != 0 ? "rows that are not multiples of 4 bytes" : nullptr;
}

const char* Tiles::refuse_rows(int tile) const {
  if (const char* why = refuse_elements(tile)) return why;
  return config_.start_row >= config_.rows[tile] ? "a start row beyond the tile" : nullptr;
}

std::uint8_t* Tiles::at(int tile, int row, int element) {
  return &tiles_[static_cast<std::size_t>(tile)][static_cast<std::size_t>(row)]
                [static_cast<std::size_t>(4 * element)];
}

const char* Tiles::zero(int tile) {
  if (const char* why = refuse(tile)) return why;
  tiles_[static_cast<std::size_t>(tile)] = {};
  config_.start_row = 0;
  return nullptr;
}

const char* Tiles::load(int tile, const char* from, std::int64_t stride) {
  if (const char* why = refuse_rows(tile)) return why;
  auto& rows = tiles_[static_cast<std::size_t>(tile)];
  std::fill(rows.begin() + config_.start_row, rows.end(), Row{});
  for (int r = config_.start_row; r < config_.rows[tile]; ++r)
    std::memcpy(rows[static_cast<std::size_t>(r)].data(), from + r * stride,
                config_.row_bytes[tile]);
  config_.start_row = 0;
  return nullptr;
}

const char* Tiles::store(int tile, char* to, std::int64_t stride) {
  if (const char* why = refuse_rows(tile)) return why;
  const auto& rows = tiles_[static_cast<std::size_t>(tile)];
  for (int r = config_.start_row; r < config_.rows[tile]; ++r)
    std::memcpy(to + r * stride, rows[static_cast<std::size_t>(r)].data(), config_.row_bytes[tile]);
  config_.start_row = 0;
  return nullptr;
}

const char* Tiles::refuse_dot(int sum, int a, int b) const {
  if (sum == a || sum == b || a == b) return "a tile that is named twice";
  for (const int t : {sum, a, b}) {
    if (const char* why = refuse_elements(t)) return why;
  }
  if (config_.rows[sum] != config_.rows[a]) return "different rows of the sums and of A";
  if (config_.row_bytes[sum] != config_.row_bytes[b])
    return "different columns of the sums and of B";
  return config_.row_bytes[a] / 4 != config_.rows[b] ? "different lengths of A and B" : nullptr;
}

// Sums of four products, modulo 2^32.
void Tiles::add_bytes(bool a_signed, bool b_signed, int sum, int a, int b) {
  const auto number = [](std::uint8_t v, bool with_sign) -> int {
    return with_sign ? std::bit_cast<std::int8_t>(v) : v;
  };
  for (int m = 0; m < config_.rows[sum]; ++m) {
    for (int k = 0; k < config_.rows[b]; ++k) {
      const std::uint8_t* x = at(a, m, k);
      for (int n = 0; n < config_.row_bytes[sum] / 4; ++n) {
        const std::uint8_t* y = at(b, k, n);
        auto out = read<std::uint32_t>(at(sum, m, n));
        for (int i = 0; i < 4; ++i)
          out += static_cast<std::uint32_t>(number(x[i], a_signed) * number(y[i], b_signed));
        write(at(sum, m, n), out);
      }
    }
  }
}

// The first products of all pairs are added up, the second ones likewise, then both and the sum.
void Tiles::add_pairs(float (*number)(std::uint16_t), int sum, int a, int b) {
  for (int m = 0; m < config_.rows[sum]; ++m) {
    for (int n = 0; n < config_.row_bytes[sum] / 4; ++n) {
      std::array<float, 2> parts = {0, 0};
      for (int k = 0; k < config_.rows[b]; ++k) {
        for (int i = 0; i < 2; ++i) {
          float& part = parts[static_cast<std::size_t>(i)];
          part = fused(number(read<std::uint16_t>(at(a, m, k) + 2 * i)),
                       number(read<std::uint16_t>(at(b, k, n) + 2 * i)), part);
        }
      }
      write(at(sum, m, n), add(read<float>(at(sum, m, n)), add(parts[0], parts[1])));
    }
  }
}

const char* Tiles::dot(Dot kind, int sum, int a, int b) {
  if (const char* why = refuse_dot(sum, a, b)) return why;
  switch (kind) {
    case Dot::kBSSD:
      add_bytes(true, true, sum, a, b);
      break;
    case Dot::kBSUD:
      add_bytes(true, false, sum, a, b);
      break;
    case Dot::kBUSD:
      add_bytes(false, true, sum, a, b);
      break;
    case Dot::kBUUD:
      add_bytes(false, false, sum, a, b);
      break;
    case Dot::kBF16PS:
      add_pairs(bf16, sum, a, b);
      break;
    case Dot::kFP16PS:
      add_pairs(f16_to_f32, sum, a, b);
      break;
  }
  config_.start_row = 0;
  return nullptr;
}

}  // namespace tessera::testing
