// Writes GGUF files for tests, sound ones and others.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::gguf::testing {

// Numbers and texts as the format has them.
class Bytes {
 public:
  template <class T>
  Bytes& add(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Bytes& text(std::string_view t) {
    add<std::uint64_t>(t.size());
    out_ += t;
    return *this;
  }
  Bytes& raw(std::string_view t) {
    out_ += t;
    return *this;
  }
  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

class Writer {
 public:
  std::uint32_t version = 3;
  std::uint64_t tensors = 0;     // that the header tells
  std::uint64_t alignment = 32;  // that tensors are given; the key is written by who sets it

  Writer& integer(std::string_view key, std::uint32_t value) {
    return entry(key, 4, Bytes().add(value).str());
  }
  Writer& number(std::string_view key, float value) {
    return entry(key, 6, Bytes().add(value).str());
  }
  Writer& flag(std::string_view key, bool value) {
    return entry(key, 7, Bytes().add(static_cast<std::uint8_t>(value)).str());
  }
  Writer& text(std::string_view key, std::string_view value) {
    return entry(key, 8, Bytes().text(value).str());
  }
  Writer& texts(std::string_view key, const std::vector<std::string>& values) {
    Bytes b;
    b.add<std::uint32_t>(8).add<std::uint64_t>(values.size());
    for (const std::string& v : values) b.text(v);
    return entry(key, 9, b.str());
  }
  // `payload`: the value as the file has it.
  Writer& entry(std::string_view key, std::uint32_t type, std::string_view payload) {
    metadata_.text(key).add(type).raw(payload);
    ++entries_;
    return *this;
  }

  // `shape` row-major; `bytes` whole blocks.
  Writer& tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                 std::string_view bytes) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    tensor_at(name, shape, type, data_.size());
    data_ += bytes;
    return *this;
  }
  Writer& tensor_at(std::string_view name, const std::vector<std::int64_t>& shape,
                    std::uint32_t type, std::uint64_t offset) {
    table_.text(name).add(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t d = shape.size(); d-- > 0;) table_.add(static_cast<std::uint64_t>(shape[d]));
    table_.add(type).add(offset);
    ++tensors;
    return *this;
  }
  Writer& raw_data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }
  Writer& floats(std::string_view name, const std::vector<std::int64_t>& shape,
                 const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return tensor(name, shape, 0, bytes);
  }

  std::string str() const {
    Bytes head;
    head.raw("GGUF").add(version).add(tensors).add(entries_);
    std::string out = head.str() + metadata_.str() + table_.str();
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data_;
  }

 private:
  Bytes metadata_, table_;
  std::uint64_t entries_ = 0;
  std::string data_;
};

}  // namespace tessera::gguf::testing
