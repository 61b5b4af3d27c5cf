// A file mapped read-only, so that gigabytes are not copied and need not fit into memory.
#pragma once

#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera {

class MappedFile {
 public:
  // kIo when the file is missing, unreadable or not a regular file.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid while this object lives.
  std::string_view bytes() const { return {static_cast<const char*>(address_), size_}; }

 private:
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}

  void* address_ = nullptr;  // null for an empty file
  std::size_t size_ = 0;
};

}  // namespace tessera
