// Runs the passes of lower.cc: skips, stops, times, prints and verifies, here and nowhere else.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::lower {

struct PassOptions {
  std::vector<std::string> print_after;  // pass names; "all" prints after each
  std::string stop_after;                // empty: run all
  std::vector<std::string> skip;
  bool verify = true;  // check the rules of the IR after every pass
  bool limits = true;  // refuse launches that the target cannot run; false: loops to look at
};

struct PassTime {
  std::string name;
  double ms = 0;
};

class PassRunner {
 public:
  PassRunner(ir::Func func, const PassOptions& options)
      : func_(std::move(func)), options_(options) {}

  void run(const char* name, const std::function<ir::Stmt(const ir::Stmt&)>& pass);
  void run_func(const char* name, const std::function<ir::Func(const ir::Func&)>& pass);

  const ir::Func& func() const { return func_; }
  const std::vector<PassTime>& times() const { return times_; }
  const std::string& printed() const { return printed_; }

 private:
  ir::Func func_;
  const PassOptions& options_;
  std::vector<PassTime> times_;
  std::string printed_;  // text requested by print_after
  bool stopped_ = false;
};

}  // namespace tessera::lower
