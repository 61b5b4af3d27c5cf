#include "tessera/app/generate/lookup.h"

#include <algorithm>

namespace tessera::app {
namespace {

constexpr std::size_t kLongest = 3, kShortest = 2;  // common ends; one token alone says too little

}  // namespace

std::vector<tokenizer::Token> looked_up(std::span<const tokenizer::Token> text, std::size_t most) {
  if (most == 0) return {};
  for (std::size_t n = kLongest; n >= kShortest; --n) {
    if (text.size() <= n) continue;
    const auto end = text.last(n);
    const auto before = text.first(text.size() - 1);
    const auto found = std::find_end(before.begin(), before.end(), end.begin(), end.end());
    if (found == before.end()) continue;
    const auto next = static_cast<std::size_t>(found - before.begin()) + n;
    const auto guess = text.subspan(next, std::min(most, text.size() - next));
    return {guess.begin(), guess.end()};
  }
  return {};
}

}  // namespace tessera::app
