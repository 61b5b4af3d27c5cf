// Which weights are fetched while which call runs.
#include "tessera/machine/runtime/device/fetch_ahead.h"

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
std::string text_of(const std::vector<Piece>& plan) {
  std::string out;
  for (const Piece& w : plan) {
    if (!out.empty()) out += ' ';
    if (w.bytes == 0) {
      out += '-';
      continue;
    }
    const auto at = static_cast<std::size_t>(static_cast<char*>(w.memory) - place(0));
    out += std::to_string(at % kMega) + (at < kMega ? "" : "+" + std::to_string(at / kMega));
    out += ':' + std::to_string(w.bytes / kMega);
  }
  return out;
}

TEST(FetchAhead, NothingWhereWeightsStayInTheCache) {
  EXPECT_EQ(text_of(plan_fetches(read_of({8, 8, 8}), 48 << 20)), "- - -");
  EXPECT_EQ(text_of(plan_fetches(read_of({80, 80}), 0)), "- -");
  EXPECT_TRUE(plan_fetches({}, 48 << 20).empty());
}

TEST(FetchAhead, TheThirdCallBeforeFetches) {
  EXPECT_EQ(text_of(plan_fetches(read_of({28, 4, 6, 5, 0, 5}), 72 << 20)), "4:5 - 6:5 - - -");
  // Where it fetches already, one before it; of large weights as much as two may fetch.
  EXPECT_EQ(
      text_of(plan_fetches(
          {{}, {}, {}, {}, {{place(1), kMega}, {place(2), 3 * kMega}}, {{place(3), 90 * kMega}}},
          72 << 20)),
      "2:3 3+6:6 3:6 - - -");
}

TEST(FetchAhead, PiecesOfAWeightAreAligned) {
  std::vector<std::vector<Piece>> read(5);
  read[4].push_back({nullptr, 90 * kMega});
  for (const int cache : {50 << 20, (40 << 20) + 1000}) {
    int pieces = 0;
    for (const Piece& p : plan_fetches(read, cache)) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.memory) % kFetchGrain, 0u);
      pieces += p.bytes > 0 ? 1 : 0;
    }
    EXPECT_EQ(pieces, 2);
  }
}

}  // namespace
}  // namespace tessera::runtime
