// Hand-written schedules kept as text files: bench/schedules/<arch>/<name>.txt.
#pragma once

#include <string>

#include "tessera/support/result.h"
#include "tessera/target/target.h"
#include "tessera/te/dag.h"
#include "tessera/te/op_spec.h"

namespace tessera::driver {

struct FoundSchedule {
  std::string path;  // empty: no file fits, the schedule is the default one
  std::string text;
};

// The most specific file in `folder`/<aarch64|x86_64> that fits: a file states in `# op:` lines
// what it is for, either a whole spec or an operation with some of its parameters
// ("conv2d:KH=3,S=1"); `stages` is the number of stages of the operation ("eltwise:stages=2"),
// `vector` the bytes of a vector register of the target. The most parameters win, then the name. A
// file whose steps cannot be applied to `dag` or lowered for `target` is passed over; `dag` is that
// of the spec.
Result<FoundSchedule> find_schedule(const std::string& folder, const te::OpSpec& spec,
                                    const te::Dag& dag, const target::Target& target);

Result<std::string> read_text_file(const std::string& path);

}  // namespace tessera::driver
