#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tessera/support/result.h"

namespace tessera {

// A folder of our own below the system's for temporary files; gone with the object.
class TemporaryFolder {
 public:
  // "tessera-PURPOSE-" begins its name. kIo where there is no place for it.
  static Result<TemporaryFolder> make(std::string_view purpose);

  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace tessera
