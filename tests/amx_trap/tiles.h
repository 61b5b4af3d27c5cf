// The tile registers of one thread and what AMX instructions do with them, as Intel's manual
// defines it for palette 1.
#pragma once

#include <array>
#include <cstdint>

namespace tessera::testing {

constexpr int kTiles = 8, kTileRows = 16, kTileRowBytes = 64;

// What ldtilecfg reads and sttilecfg writes.
struct TileConfig {
  std::uint8_t palette = 0, start_row = 0, zero[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

enum class Dot : std::uint8_t { kBSSD, kBSUD, kBUSD, kBUUD, kBF16PS, kFP16PS };

// Functions that can fail return the reason for which the processor refuses, else null; then
// nothing changed. They are safe in signal handlers.
class Tiles {
 public:
  const char* configure(const void* from);
  void store_config(void* to) const;
  void release();
  const TileConfig& config() const { return config_; }
  const char* zero(int tile);
  const char* load(int tile, const char* from, std::int64_t stride);
  const char* store(int tile, char* to, std::int64_t stride);
  const char* dot(Dot kind, int sum, int a, int b);

 private:
  using Row = std::array<std::uint8_t, kTileRowBytes>;
  using Tile = std::array<Row, kTileRows>;

  const char* refuse(int tile) const;
  const char* refuse_elements(int tile) const;
  const char* refuse_rows(int tile) const;
  const char* refuse_dot(int sum, int a, int b) const;
  void add_bytes(bool a_signed, bool b_signed, int sum, int a, int b);
  void add_pairs(float (*number)(std::uint16_t), int sum, int a, int b);
  std::uint8_t* at(int tile, int row, int element);  // elements of 4 bytes

  TileConfig config_{};
  std::array<Tile, kTiles> tiles_{};
};

}  // namespace tessera::testing
