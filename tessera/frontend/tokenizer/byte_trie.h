// Which of many texts another one begins with.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::tokenizer {

class ByteTrie {
 public:
  void add(std::string_view text, Token token) {
    std::uint32_t node = 0;
    for (const char c : text) {
      const auto [it, added] = next_.try_emplace(key(node, c), nodes_);
      if (added) ++nodes_;
      node = it->second;
    }
    tokens_[node] = token;
  }

  // Calls found(token, bytes) for each that `text` begins with, shortest first.
  template <class Found>
  void each_prefix(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto it = next_.find(key(node, text[i]));
      if (it == next_.end()) return;
      node = it->second;
      if (const auto end = tokens_.find(node); end != tokens_.end()) found(end->second, i + 1);
    }
  }

 private:
  static std::uint64_t key(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }

  std::unordered_map<std::uint64_t, std::uint32_t> next_;
  std::unordered_map<std::uint32_t, Token> tokens_;
  std::uint32_t nodes_ = 1;
};

}  // namespace tessera::tokenizer
