// A file that is written piece by piece and appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera {

// A new or regular file is written beside its path and renamed by finish(), so that the old content
// stays when something fails; anything else (a pipe, a device) is written in place.
class FileWriter {
 public:
  // `mode` of a new file, less what the umask takes.
  static Result<FileWriter> create(const std::string& path, unsigned mode = 0666);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();  // without finish(): nothing is left of a file that would be renamed

  // Small pieces are gathered.
  Result<void> write(std::string_view bytes);
  Result<void> finish();

 private:
  FileWriter(int fd, std::string path, std::string staged)
      : fd_(fd), path_(std::move(path)), staged_(std::move(staged)) {}
  Result<void> put(std::string_view bytes);

  int fd_;
  std::string path_, staged_;  // staged_ empty: written in place
  std::string pending_;
};

}  // namespace tessera
