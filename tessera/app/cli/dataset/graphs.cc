// tessera dataset graphs: whole models with many plans, timed on this machine.
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/collect_plans.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

int run_graphs(app::CollectPlansOptions& o, const std::string& cost_model) {
  o.compile.target = target::code_target(target::host(), o.threads);
  o.compile.cache = kernel::user_kernel_cache();
  o.time_kernels = cost_model == "measured";
  if (!o.time_kernels) o.models_of_kernels = app::model_paths(cost_model, o.compile.target);
  catch_interrupt();
  ProgressLine line(30);
  app::CollectPlansCallbacks callbacks;
  callbacks.interrupted = interrupted;
  callbacks.progress = [&](const app::CollectPlansProgress& p) {
    line.show(fmt::format("{}: {} of {} plans, {} again or wrong; rules {}, best {}", p.model,
                          p.plans, p.wanted, p.failed, time_text(p.rules_s), time_text(p.best_s)));
  };
  const Result<app::CollectPlansResult> done = app::collect_plans(o, callbacks);
  line.finish();
  if (!done) return report_model(done.error());
  for (const std::string& why : done->skipped) fmt::print(stderr, "left out: {}\n", why);
  for (const std::string& why : done->unchecked)
    fmt::print(stderr, "compared with the rules' plan only, which was compared with nothing: {}\n",
               why);
  fmt::print("{}: {} of {} ({} were there), {} drawn again, {} wrong; ended by {}\n", o.folder,
             counted(done->plans, "plan"), counted(done->models, "model"), done->earlier,
             done->failed - done->wrong, done->wrong, done->stopped_by);
  return interrupted() ? interrupt_code() : kOk;
}

}  // namespace

void add_dataset_graphs(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand(
      "graphs", "Time whole models with many plans, as graphs in TpuGraphs' schema");
  sub->footer(
      "Examples:\n  tessera dataset graphs zoo:squeezenet1_1 zoo:resnet18 --plans 200 -o plans\n"
      "  tessera train --model graphsage --graphs plans/*.npz -o w.safetensors\n"
      "Run the same command again to resume.");
  const auto args = std::make_shared<app::CollectPlansOptions>();
  sub->add_option("MODEL", args->models, "ONNX files or zoo:NAME[@parameter=value,...]")
      ->required();
  sub->add_option("-o,--output", args->folder, "Folder with NAME.npz for each model")->required();
  sub->add_option("--plans", args->plans, "Plans of one model in the end")->check(positive());
  sub->add_option("--searched", args->searched_share,
                  "Share drawn near the fastest so far, the rest anywhere")
      ->check(range(0.0, 1.0));
  sub->add_option("--again", args->again_share,
                  "Share that measures an earlier plan again, to show how far times can be trusted")
      ->check(range(0.0, 1.0));
  const auto cost_model = std::make_shared<std::string>(app::kShipped);
  sub->add_option("--cost-model", *cost_model,
                  "Cost model that estimates the kernels of every plan: a file, several that judge "
                  "together (A,B,C), none, or shipped: what comes with Tessera (default). "
                  "measured: the kernels are timed, each alone");
  sub->renamed("--search-model", "--cost-model");
  sub->add_duration("--budget", args->budget_s, "Wall clock: 90s, 5m, or none (default)",
                    Flags::Zero::kNoLimit);
  add_threads_option(*sub, args->threads, "Threads of the measured code");
  sub->add_option("--seed", args->seed, "Seed of all random choices");
  sub->callback([args, cost_model, run] {
    *run = [args, cost_model] { return run_graphs(*args, *cost_model); };
  });
}

}  // namespace tessera::cli
