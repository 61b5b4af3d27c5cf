#include "tessera/backend/codegen/llvm/schedule_options.h"

#include <condition_variable>
#include <mutex>

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/CommandLine.h>

namespace tessera::codegen {
namespace {

// Options are absent in some LLVM versions; then LLVM's own order stays.
void set_option(const char* name, const char* value) {
  llvm::StringMap<llvm::cl::Option*>& options = llvm::cl::getRegisteredOptions();
  const auto it = options.find(name);
  if (it == options.end()) return;
  it->second->setNumOccurrencesFlag(llvm::cl::ZeroOrMore);
  it->second->addOccurrence(1, name, value);
}

// Passes that find nothing to do in generated loop nests, the code without them being the same, and
// the analyses that only they ask for. Together a sixteenth of the time to emit a small kernel.
void skip_idle_passes() {
  for (const char* name :
       {"disable-constant-hoisting", "disable-early-ifcvt", "disable-early-taildup",
        "disable-interleaved-load-combine", "disable-lsr", "disable-mergeicmps",
        "disable-partial-libcall-inlining", "disable-postra-machine-licm", "disable-tail-duplicate",
        "no-stack-coloring"}) {
    set_option(name, "true");
  }
  for (const char* name : {"aarch64-enable-atomic-cfg-tidy", "aarch64-enable-branch-targets",
                           "aarch64-enable-collect-loh", "aarch64-enable-compress-jump-tables",
                           "aarch64-enable-condopt", "aarch64-enable-early-ifcvt",
                           "aarch64-enable-falkor-hwpf-fix", "aarch64-enable-global-merge",
                           "aarch64-enable-loop-data-prefetch", "aarch64-enable-stp-suppress"}) {
    set_option(name, "false");
  }
}

void set_options_of(bool aarch64) {
  // On Neoverse V1 an 8x12 f32 micro-kernel runs at 90 % of peak when its five loads stand together
  // at the top of the loop or are paired, and at 98.6 % when they are spread between the FMAs:
  // scheduling from the top and leaving loads unpaired does that.
#if LLVM_VERSION_MAJOR >= 20
  set_option("misched-prera-direction", aarch64 ? "topdown" : "bidirectional");
#else
  set_option("misched-topdown", aarch64 ? "true" : "false");
#endif
  set_option("aarch64-enable-ldst-opt", aarch64 ? "false" : "true");
}

// Who emits code now, and for what.
struct Turn {
  std::mutex mutex;
  std::condition_variable changed;
  bool aarch64 = false, chosen = false;
  int emitting = 0;
  int waiting = 0;  // until nobody emits; newcomers wait with them
  int switches = 0;
};

Turn& turn() {
  static Turn the_turn;
  return the_turn;
}

}  // namespace

void set_common_options() {
  static std::once_flag once;
  std::call_once(once, [] {
    skip_idle_passes();
    // Addresses of shared memory are 32 bits wide.
    set_option("nvptx-short-ptr", "true");
  });
}

ScheduleOptions::ScheduleOptions(bool aarch64) {
  Turn& t = turn();
  std::unique_lock lock(t.mutex);
  const auto is_ours = [&] { return t.chosen && t.aarch64 == aarch64; };
  if (t.emitting > 0 && (!is_ours() || t.waiting > 0)) {
    ++t.waiting;
    const int before = t.switches;
    t.changed.wait(lock, [&] { return t.emitting == 0 || (is_ours() && t.switches != before); });
    --t.waiting;
  }
  if (!is_ours()) {
    set_options_of(aarch64);
    t.aarch64 = aarch64;
    t.chosen = true;
    ++t.switches;
    t.changed.notify_all();
  }
  ++t.emitting;
}

ScheduleOptions::~ScheduleOptions() {
  Turn& t = turn();
  const std::lock_guard lock(t.mutex);
  if (--t.emitting == 0) t.changed.notify_all();
}

}  // namespace tessera::codegen
