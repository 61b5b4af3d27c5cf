// What is read from a folder, piece by piece, as the contents of a gguf::File.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/gguf/file.h"

namespace tessera::checkpoint {

struct Parts {
  // Nothing in here moves: the others point into it.
  std::deque<std::string> kept;
  std::map<std::string_view, gguf::Value> metadata;
  std::vector<gguf::Tensor> tensors;

  std::string_view keep(std::string text) { return kept.emplace_back(std::move(text)); }
  void set(std::string key, gguf::Value value) {
    metadata.insert_or_assign(keep(std::move(key)), std::move(value));
  }
  void add(std::string name, const gguf::BlockType& type, Shape shape, std::string_view bytes) {
    tensors.push_back({keep(std::move(name)), &type, std::move(shape), bytes});
  }
  // An f32 tensor that is made here.
  void add(std::string name, Shape shape, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    add(std::move(name), *gguf::find_block_type(0), std::move(shape), keep(std::move(bytes)));
  }
};

}  // namespace tessera::checkpoint
