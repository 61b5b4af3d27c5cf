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
  // The file `relative` to `folder`. Whatever links there are on the way, it lies inside: kIo with
  // the reason otherwise.
  static Result<MappedFile> open_inside(const std::string& folder, const std::string& relative);
  // Takes over `fd`; errors name `path`.
  static Result<MappedFile> map(int fd, const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Valid while this object lives. A page of zeros can be read behind them. Who cuts the file short
  // meanwhile ends this process (SIGBUS): what is to be kept for long is copied out of it.
  std::string_view bytes() const { return {static_cast<const char*>(address_), size_}; }

 private:
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}

  void* address_ = nullptr;  // null for an empty file
  std::size_t size_ = 0;
};

// How open_inside works where the kernel has no openat2 or a sandbox refuses it: name by name,
// through no link at all. A descriptor, or -1 and errno.
int open_without_links(int folder, const std::string& relative);

}  // namespace tessera
