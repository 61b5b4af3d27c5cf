// A program of the user's that proposes candidates, in one conversation about all tasks.
#pragma once

#include <memory>
#include <string>

#include "tessera/support/line_program.h"

namespace tessera::search {

class PolicyProgram {
 public:
  // Starts it and waits until it answers. kInvalidArgument: it does not, or not as
  // docs/reference/search.md says; kUnavailable: nothing can be started.
  static Result<std::shared_ptr<PolicyProgram>> start(const std::string& command,
                                                      const LineProgramLimits& limits = {});

  LineProgram& program() { return *program_; }
  // The number of a search that begins.
  int begin_search() { return ++searches_; }
  // Why it proposes nothing any more; empty: it does.
  std::string error() const { return program_->error(); }

 private:
  explicit PolicyProgram(std::unique_ptr<LineProgram> program) : program_(std::move(program)) {}

  std::unique_ptr<LineProgram> program_;
  int searches_ = 0;
};

}  // namespace tessera::search
