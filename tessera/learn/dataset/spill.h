// More bytes than memory holds, in groups that are read back one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera::dataset {

// Entries gather in memory, 16 MiB of all groups together, and go compressed to a file without a
// name: whatever ends the process, nothing is left.
class Spill {
 public:
  static Result<Spill> create(const std::string& folder);
  Spill(Spill&&) noexcept;
  Spill& operator=(Spill&&) = delete;
  ~Spill();

  // Groups are small numbers. kIo: no space is left, and the like.
  Result<void> add(std::size_t group, std::string_view entry);
  // Every entry of a group in the order in which they came.
  Result<void> visit(std::size_t group,
                     const std::function<Result<void>(std::string_view entry)>& visit) const;

 private:
  struct Impl;
  explicit Spill(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::dataset
