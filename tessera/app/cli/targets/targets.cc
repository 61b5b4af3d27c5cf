// tessera targets: the machines that code can be generated for.
#include "tessera/app/cli/common/command.h"
#include "tessera/machine/target/target.h"

namespace tessera::cli {
namespace {

int list_targets() {
  for (const std::string& name : target::target_names()) {
    const Result<target::Target> t = target::find_target(name);
    if (!t.ok()) return report(t.error());
    if (t->name == name) {
      fmt::print("{}\n", target::to_text(*t));
    } else {
      fmt::print("{} = {}\n", name, t->name);
    }
  }
  return kOk;
}

}  // namespace

void add_targets(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("targets", "List the machines that code can be generated for");
  sub->footer("Examples:\n  tessera targets\n  tessera compile zoo:mlp -o out --target x86-64-v3");
  sub->callback([run] { *run = list_targets; });
}

}  // namespace tessera::cli
