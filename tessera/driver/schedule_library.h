// Hand-written schedules kept as text files: bench/schedules/<arch>/<name>.txt.
#pragma once

#include <string>

#include "tessera/support/result.h"
#include "tessera/target/target.h"
#include "tessera/te/op_spec.h"

namespace tessera::driver {

struct FoundSchedule {
  std::string path;  // empty: no file, the loops run as written
  std::string text;
};

// The most specific file in `folder`/<aarch64|x86_64>: a file states in `# op:` lines what it is for, either a whole
// spec or an operation with some of its parameters ("conv2d:KH=3,S=1"); the most parameters win, then the name.
Result<FoundSchedule> find_schedule(const std::string& folder, const te::OpSpec& spec, const target::Target& target);

Result<std::string> read_text_file(const std::string& path);

}  // namespace tessera::driver
