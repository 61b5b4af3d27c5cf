// Which weights are fetched while which call runs.
#include "tessera/runtime/device/fetch_ahead.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

// The place of weights tells them apart.
char* place(std::size_t number) {
  static std::array<char, 16> memory{};
  return &memory.at(number);
}

// Weights of so many MB that calls read, numbered from 1.
std::vector<std::vector<Piece>> read_of(const std::vector<std::size_t>& megabytes) {
  std::vector<std::vector<Piece>> read(megabytes.size());
  for (std::size_t i = 0; i < megabytes.size(); ++i) {
    if (megabytes[i] > 0) read[i].push_back({place(i + 1), megabytes[i] * kMega});
  }
  return read;
}

// The plan as text: by call, the weights that are fetched beside it.
std::string text_of(const std::vector<std::vector<Piece>>& plan) {
  std::string out;
  for (const auto& pieces : plan) {
    if (!out.empty()) out += ' ';
    if (pieces.empty()) out += '-';
    for (const Piece& w : pieces) {
      out += std::to_string(static_cast<char*>(w.memory) - place(0));
      out += ':' + std::to_string(w.bytes / kMega) + ';';
    }
  }
  return out;
}

TEST(FetchAhead, NothingWhereWeightsStayInTheCache) {
  EXPECT_EQ(text_of(plan_fetches(read_of({8, 8, 8}), 48 << 20)), "- - -");
  EXPECT_EQ(text_of(plan_fetches(read_of({80, 80}), 0)), "- -");
  EXPECT_TRUE(plan_fetches({}, 48 << 20).empty());
}

TEST(FetchAhead, WeightsComeSomeCallsBeforeTheyAreRead) {
  // A sixth of the cache, 12 MB, may be on its way before a call.
  EXPECT_EQ(text_of(plan_fetches(read_of({8, 8, 4, 8, 0, 9}), 72 << 20)),
            "2:8; 3:4;4:8; 6:9; - - -");
  // Small ones all from the beginning; of large ones as much as may be.
  EXPECT_EQ(text_of(plan_fetches(read_of({1, 1, 1, 90}), 72 << 20)), "2:1;3:1;4:12; - - -");
}

}  // namespace
}  // namespace tessera::runtime
