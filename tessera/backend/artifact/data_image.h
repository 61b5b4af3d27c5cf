// Structs of the artifacts' C runtime as data of an object file, with the addresses between them.
// Both architectures lay them out as this machine does: little-endian, pointers of 8 bytes.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tessera/backend/artifact/object_linker.h"

namespace tessera::artifact {

// With zeros also between its members: equal values have equal bytes.
template <class T>
T zeroed() {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>);
  T value;
  std::memset(static_cast<void*>(&value), 0, sizeof value);
  return value;
}

class DataImage {
 public:
  using Address = ObjectLinker::Address;

  explicit DataImage(ObjectLinker* linker)
      : linker_(*linker),
        constants_{linker->add_section(".rodata", kAlignment), {}},
        tables_{linker->add_section(".data.rel.ro", kAlignment, true), {}} {}

  Address text(std::string_view text) {
    const Address at = append(constants_, text, 1);
    constants_.bytes += '\0';
    return at;
  }

  // Rows without addresses.
  template <class T>
  Address constants(std::span<const T> rows) {
    return append(constants_, bytes_of(rows), alignof(T));
  }

  // Rows whose addresses point() fills in.
  template <class T>
  Address table(std::span<const T> rows) {
    return append(tables_, bytes_of(rows), alignof(T));
  }

  template <class Target>
  void point(Address table, std::size_t offset, const Target& to) {
    linker_.point({table.section, table.offset + offset}, to);
  }

  // Hands the bytes to the linker, which must not outlive the image. Nothing is added after it.
  void finish() {
    linker_.fill(constants_.section, constants_.bytes);
    linker_.fill(tables_.section, tables_.bytes);
  }

 private:
  static constexpr std::uint64_t kAlignment = 16;
  struct Part {
    std::size_t section;
    std::string bytes;
  };

  template <class T>
  static std::string_view bytes_of(std::span<const T> rows) {
    return {reinterpret_cast<const char*>(rows.data()), rows.size_bytes()};
  }

  static Address append(Part& part, std::string_view bytes, std::size_t alignment) {
    part.bytes.resize((part.bytes.size() + alignment - 1) / alignment * alignment);
    const Address at{part.section, part.bytes.size()};
    part.bytes += bytes;
    return at;
  }

  ObjectLinker& linker_;
  Part constants_, tables_;
};

}  // namespace tessera::artifact
