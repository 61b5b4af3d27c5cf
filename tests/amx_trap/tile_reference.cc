#include "tests/amx_trap/tile_reference.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "tessera/support/dtype.h"

namespace tessera::testing {
namespace {

long double operand(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? 0 * v : v; }

class Reference {
 public:
  Reference(const TileProgram& program, bool marked)
      : program_(program), marked_(marked), memory_(program.memory), stack_(kStackBytes) {}

  std::vector<std::uint8_t> run() {
    for (const TileStep& s : program_.steps) step(s);
    return memory_;
  }

 private:
  struct Tile {
    std::uint8_t bytes[kTileRows][kTileRowBytes];
    template <class T>
    T get(int row, int element) const {
      T out;
      std::memcpy(&out, &bytes[row][static_cast<std::size_t>(element) * sizeof(T)], sizeof(T));
      return out;
    }
    template <class T>
    void set(int row, int element, T v) {
      std::memcpy(&bytes[row][static_cast<std::size_t>(element) * sizeof(T)], &v, sizeof(T));
    }
  };

  std::uint8_t* place(const TileStep& s, int row) {
    return &(s.on_stack ? stack_ : memory_)[static_cast<std::size_t>(s.offset + row * s.stride)];
  }

  void step(const TileStep& s) {
    const int rows = config_.rows[s.tile], bytes = config_.row_bytes[s.tile];
    switch (s.op) {
      case TileOp::kLoadConfig:
        config_ = s.config;
        // Programs write those that do not lie in the code to their place first.
        if (s.form.base != AddressForm::Base::kInstruction)
          std::memcpy(place(s, 0), &config_, sizeof(config_));
        std::memset(tiles_, 0, sizeof(tiles_));
        used_ = false;
        return;
      case TileOp::kStoreConfig: {
        TileConfig shown = config_;
        if (marked_ && used_) shown.start_row = 255;
        std::memcpy(place(s, 0), &shown, sizeof(shown));
        return;
      }
      case TileOp::kRelease:
        config_ = {};
        return;
      case TileOp::kZero:
        tiles_[s.tile] = {};
        break;
      case TileOp::kLoad:
        for (int r = config_.start_row; r < kTileRows; ++r) {
          std::memset(tiles_[s.tile].bytes[r], 0, kTileRowBytes);
          if (r < rows)
            std::memcpy(tiles_[s.tile].bytes[r], place(s, r), static_cast<std::size_t>(bytes));
        }
        break;
      case TileOp::kStore:
        for (int r = config_.start_row; r < rows; ++r)
          std::memcpy(place(s, r), tiles_[s.tile].bytes[r], static_cast<std::size_t>(bytes));
        break;
      case TileOp::kDot:
        dot(s);
        break;
    }
    config_.start_row = 0;
    used_ = true;
  }

  void dot(const TileStep& s) {
    const int depth = config_.rows[s.b];
    for (int m = 0; m < config_.rows[s.tile]; ++m) {
      for (int n = 0; n < config_.row_bytes[s.tile] / 4; ++n) {
        if (s.dot == Dot::kBF16PS || s.dot == Dot::kFP16PS) {
          add_floats(s, m, n, depth);
        } else {
          add_bytes(s, m, n, depth);
        }
      }
    }
  }

  void add_bytes(const TileStep& s, int m, int n, int depth) {
    std::int64_t sum = tiles_[s.tile].get<std::int32_t>(m, n);
    for (int k = 0; k < 4 * depth; ++k) {
      const int at = 4 * n + k % 4;
      const auto x = tiles_[s.a].get<std::int8_t>(m, k);
      const auto y = tiles_[s.b].get<std::int8_t>(k / 4, at);
      const std::int64_t unsigned_x = tiles_[s.a].get<std::uint8_t>(m, k);
      const std::int64_t unsigned_y = tiles_[s.b].get<std::uint8_t>(k / 4, at);
      sum += (s.dot == Dot::kBSSD || s.dot == Dot::kBSUD ? x : unsigned_x) *
             (s.dot == Dot::kBSSD || s.dot == Dot::kBUSD ? y : unsigned_y);
    }
    tiles_[s.tile].set(m, n, static_cast<std::uint32_t>(sum));
  }

  void add_floats(const TileStep& s, int m, int n, int depth) {
    const auto number = [&](int tile, int row, int element) {
      const auto bits = tiles_[tile].get<std::uint16_t>(row, element);
      return s.dot == Dot::kFP16PS ? f16_to_f32(bits) : bf16_to_f32(bits);
    };
    float even = 0, odd = 0;
    for (int k = 0; k < depth; ++k) {
      even = fused_reference(number(s.a, m, 2 * k), number(s.b, k, 2 * n), even);
      odd = fused_reference(number(s.a, m, 2 * k + 1), number(s.b, k, 2 * n + 1), odd);
    }
    // The first operand's NaN counts: x + y as x * 1 + y.
    const float both = fused_reference(even, 1, odd);
    tiles_[s.tile].set(m, n, fused_reference(tiles_[s.tile].get<float>(m, n), 1, both));
  }

  const TileProgram& program_;
  bool marked_, used_ = false;
  std::vector<std::uint8_t> memory_, stack_;
  TileConfig config_{};
  Tile tiles_[kTiles]{};
};

}  // namespace

float fused_reference(float x, float y, float z) {
  for (const float v : {x, y, z}) {
    if (std::isnan(v)) return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) | 0x400000);
  }
  const long double exact = operand(x) * operand(y) + operand(z);
  if (std::isnan(exact)) return std::bit_cast<float>(0xffc00000);
  if (exact == 0 || std::isinf(exact)) return static_cast<float>(exact);
  int exponent = 0;
  const long double digits = std::frexp(exact, &exponent);  // 0.5 to 1
  const long double rounded = std::ldexp(std::nearbyint(std::ldexp(digits, 24)), exponent - 24);
  return std::fabs(rounded) < 0x1p-126L ? std::copysign(0.0F, static_cast<float>(digits))
                                        : static_cast<float>(rounded);
}

std::vector<std::uint8_t> run_reference(const TileProgram& program, bool marked) {
  return Reference(program, marked).run();
}

}  // namespace tessera::testing
