// A folder that appears whole or not at all: filled beside its final place and renamed.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::artifact {

class StagingFolder {
 public:
  // Parents of `path` are created; what interrupted compilations into `path` left is removed.
  // kInvalidArgument: `path` exists and is neither an empty folder nor one that holds an artifact
  // and nothing else; kIo: it cannot be made.
  static Result<StagingFolder> make(const std::string& path);

  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&&) = delete;
  ~StagingFolder();  // removes everything that was not published

  const std::string& path() const { return staging_; }
  // The error with the final path in place of this one, which its reader would not find.
  Error with_final_path(Error error) const;
  Result<void> publish();

 private:
  StagingFolder(std::string final_path, std::string staging, int lock)
      : final_(std::move(final_path)), staging_(std::move(staging)), lock_(lock) {}

  std::string final_, staging_;  // staging_ is empty when there is nothing to remove
  int lock_;                     // descriptor that marks staging_ as in use, or -1
};

}  // namespace tessera::artifact
