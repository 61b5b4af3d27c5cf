#include "tessera/scheduling/lower/pass_runner.h"

#include <algorithm>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"
#include "tessera/support/clock.h"

namespace tessera::lower {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void PassRunner::run_func(const char* name, const std::function<ir::Func(const ir::Func&)>& pass) {
  if (stopped_ || contains(options_.skip, name)) return;
  const auto start = Clock::now();
  func_ = pass(func_);
  times_.push_back({name, milliseconds_since(start)});
  if (options_.verify) {
    if (const Result<void> ok = ir::verify(func_); !ok.ok()) {
      TESSERA_CHECK(false, "pass {} broke the IR: {}\n{}", name, ok.error().message,
                    ir::to_text(func_));
    }
  }
  if (contains(options_.print_after, name) || contains(options_.print_after, "all")) {
    printed_ += fmt::format("// after {}\n{}\n", name, ir::to_text(func_));
  }
  stopped_ = options_.stop_after == name;
}

void PassRunner::run(const char* name, const std::function<ir::Stmt(const ir::Stmt&)>& pass) {
  run_func(name, [&](const ir::Func& f) {
    ir::Func out = f;
    out.body = pass(f.body);
    return out;
  });
}

}  // namespace tessera::lower
