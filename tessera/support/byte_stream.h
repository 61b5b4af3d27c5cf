// Numbers and texts one after the other, as this machine has them: what one process leaves for the
// next of the same program.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera {

// A text has its length before it.
class ByteWriter {
 public:
  void number(std::int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void text(std::string_view t) {
    number(static_cast<std::int64_t>(t.size()));
    bytes_ += t;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// What does not fit is zero or empty, and ok() is false from then on.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t number() {
    std::int64_t n = 0;
    if (bytes_.size() < sizeof(n)) return ok_ = false, 0;
    std::memcpy(&n, bytes_.data(), sizeof(n));
    bytes_.remove_prefix(sizeof(n));
    return n;
  }
  std::string_view text() {
    const std::int64_t size = number();
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes_.size()) return ok_ = false, "";
    const std::string_view out = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(out.size());
    return out;
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace tessera
