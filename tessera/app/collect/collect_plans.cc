#include "tessera/app/collect/collect_plans.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/bench/check_kernels.h"
#include "tessera/app/compile/about_model.h"
#include "tessera/app/tune/plan_estimates.h"
#include "tessera/app/tune/plan_graphs.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/frontend/task/plan_space.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/timing.h"
#include "tessera/support/clock.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/model_name.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;
using plan::Decisions;

constexpr std::uint64_t kPlanInputSeed = 1;
// Files are written again after so many plans.
constexpr std::int64_t kWriteEvery = 10;

constexpr std::int64_t kMostInVain = 20;  // draws, beside two for every plan that is wanted

// The fastest of these are what a search goes on from, by so many changes at most.
constexpr std::size_t kPlanParents = 8;
constexpr std::int64_t kMostChanges = 4;
// Of a plan that is drawn anywhere: how often half of it becomes the rules' again, at most.
constexpr std::int64_t kMostHalvings = 5;

// Samples of a plan and of the rules' plan in turns, how long each takes at least, and all of them
// at most where a run is short.
constexpr int kSamples = 6;
constexpr double kLeastTimed = 5e-4, kTimed = 0.06;

// Of a kernel alone.
constexpr int kKernelSamples = 5;
// What is read between two of them so that caches hold something else, at most.
constexpr std::int64_t kMostEvicted = 64 << 20;
constexpr std::size_t kLine = 64;

std::string file_name(const std::string& model) {
  const std::string stem =
      is_built_in(model) ? std::string(without_zoo(model)) : fs::path(model).stem().string();
  std::string out;
  for (const char c : stem) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

// One line of a plan that was measured.
struct Line {
  Decisions decisions;    // all
  double seconds = 0;     // at the speed that the machine had when the rules' plan was timed first
  double rules_s = 0;     // of the rules' plan beside it
  double estimate_s = 0;  // without measuring; 0: nobody said
};

Result<std::vector<Line>> read_lines(const std::string& path) {
  std::vector<Line> out;
  if (!fs::exists(path)) return out;
  TESSERA_TRY(const std::string text, read_file(path));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    try {
      Line l;
      l.seconds = json.at("seconds").get<double>();
      l.rules_s = json.at("rules_s").get<double>();
      l.estimate_s = json.value("estimate_s", 0.0);
      for (const auto& [key, value] : json.at("decisions").items()) {
        l.decisions[key] = value.get<std::string>();
      }
      out.push_back(std::move(l));
    } catch (const nlohmann::json::exception&) {
      return make_error(ErrorCode::kInvalidArgument, "{}: line {} is not a plan", path,
                        out.size() + 1);
    }
  }
  return out;
}

std::string to_text(const std::vector<Line>& lines) {
  std::string out;
  for (const Line& l : lines) {
    const nlohmann::json json = {{"seconds", l.seconds},
                                 {"rules_s", l.rules_s},
                                 {"estimate_s", l.estimate_s},
                                 {"decisions", l.decisions}};
    out += json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return out;
}

// The plans of one model.
class ModelPlans {
 public:
  ModelPlans(const CollectPlansOptions& options, const std::string& model, runtime::Device& device,
             PlanEstimates& estimates)
      : options_(options),
        model_(model),
        device_(device),
        estimates_(estimates),
        base_((fs::path(options.folder) / file_name(model)).string()) {}

  Result<void> open() {
    TESSERA_TRY(undecided_, import_undecided(model_, options_.compile));
    TESSERA_TRY(PlanGraph graph,
                PlanGraph::make(undecided_, passes_for(options_.compile), file_name(model_)));
    graph_.emplace(std::move(graph));
    TESSERA_TRY(task::PlanSpace space,
                task::PlanSpace::make(undecided_, passes_for(options_.compile), {}));
    space_.emplace(std::move(space));
    // What comes before the first decision is the same for all plans.
    TESSERA_DO(graph::optimize_undecided(undecided_, passes_for(options_.compile)));
    TESSERA_TRY(lines_, read_lines(lines_path()));
    for (const Line& l : lines_) known_.insert(l.decisions);
    earlier_ = std::ssize(lines_);
    TESSERA_DO(estimate_earlier());
    if (earlier_ >= options_.plans) return {};
    TESSERA_TRY(task::PlannedGraph rules, planned({}));
    TESSERA_TRY(rules_, build(std::move(rules)));
    TESSERA_TRY(wanted_, outputs_of(rules_));
    TESSERA_DO(check_rules());
    if (lines_.empty()) TESSERA_DO(measure(rules_));
    return {};
  }

  // Small models have few plans: draws that were there before end it too.
  bool complete() const {
    return std::ssize(lines_) >= options_.plans || failed_ >= 2 * options_.plans + kMostInVain;
  }
  std::int64_t size() const { return std::ssize(lines_); }
  std::int64_t earlier() const { return earlier_; }
  std::int64_t failed() const { return failed_; }
  std::int64_t wrong() const { return wrong_; }
  const std::string& unchecked() const { return unchecked_; }
  double rules_s() const { return lines_.empty() ? 0 : lines_[0].rules_s; }
  double best_s() const {
    double best = rules_s();
    for (const Line& l : lines_) best = std::min(best, l.seconds);
    return best;
  }

  // Draws, builds, checks and times one more plan.
  Result<void> next() {
    // By the number of the plan, so that a call that goes on draws what the first would have.
    Rng rng(hash_bytes(fmt::format("{} {} {}", options_.seed, model_, size() + failed_)));
    const bool again = options_.again_share > 0 && rng.chance(options_.again_share);
    TESSERA_TRY(task::PlannedGraph planned, again ? repeat(rng) : draw(rng));
    if (!again && known_.contains(decisions_of(planned))) {
      ++failed_;
      return {};
    }
    const Result<Built> made = build(std::move(planned));
    const Result<std::vector<HostTensor>> got =
        made ? outputs_of(*made) : Result<std::vector<HostTensor>>(made.error());
    bool right = got && worst_output(made->graph, *got, wanted_) <= 1;
    if (right) {
      TESSERA_TRY(const KernelsCheck kernels, check_narrow(*made));
      right = kernels.worst <= 1;
    }
    if (!right) {
      ++failed_;
      ++wrong_;
      return {};
    }
    TESSERA_DO(measure(*made));
    if (std::ssize(lines_) % kWriteEvery == 0) return write();
    return {};
  }

  Result<void> write() const {
    if (lines_.empty()) return {};
    TESSERA_DO(write_file(lines_path(), {to_text(lines_)}));
    std::vector<PlanGraph::Measured> plans;
    for (const Line& l : lines_) plans.push_back({l.decisions, l.seconds, l.estimate_s});
    TESSERA_TRY(const graphset::ConfigGraph graph, graph_->with(plans));
    return graphset::write_graph(base_ + ".npz", graph);
  }

 private:
  struct Built {
    graph::Graph graph;
    task::TaskGraph tasks;
    Decisions decisions;
    exec::CompiledModel model;
    struct Kernel {
      std::string key;
      int weight = 1;  // how often it runs
    };
    std::vector<Kernel> kernels;  // as those of the model
    double estimate_s = 0;
  };

  // All plans are compared with the rules' plan: that one with every node alone.
  Result<void> check_rules() {
    TESSERA_TRY(const onnx::Model model, load_onnx(model_));
    const Result<std::vector<HostTensor>> want =
        outputs_otherwise(model, options_.compile, inputs_of(rules_), device_);
    if (!want) {
      unchecked_ = want.error().message;
      return {};
    }
    const double error = worst_output(rules_.graph, wanted_, *want);
    if (error <= 1) {
      TESSERA_TRY(const KernelsCheck kernels, check_narrow(rules_));
      if (kernels.worst <= 1) return {};
      return make_error(ErrorCode::kRunFailed,
                        "the rules' plan is wrong: the kernel of '{}' differs by {:.1f} times what "
                        "is allowed",
                        kernels.worst_node, kernels.worst);
    }
    if (agree_but_for_no_numbers(rules_.graph, wanted_, *want)) {
      unchecked_ = "every value of an output is not a number";
      return {};
    }
    return make_error(ErrorCode::kRunFailed,
                      "the rules' plan differs from every node alone by {:.1f} times what is "
                      "allowed",
                      error);
  }

  // Where types are narrow the outputs say little of a wrong kernel: each is compared by itself, in
  // the first plan that has it.
  Result<KernelsCheck> check_narrow(const Built& built) {
    if (!is_narrow(built.graph)) return KernelsCheck();
    exec::ModelRunner runner(built.model, device_);
    const std::vector<HostTensor> inputs = inputs_of(built);
    for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
    TESSERA_DO(runner.run());
    return check_kernels(built.graph, built.tasks, built.model, runner, &agreed_);
  }

  // Lines from before there was anybody to say.
  Result<void> estimate_earlier() {
    if (options_.models_of_kernels.empty()) return {};
    for (Line& l : lines_) {
      if (l.estimate_s > 0) continue;
      TESSERA_TRY(const task::PlannedGraph of_line,
                  planned(plan::Decider(l.decisions), /*shapes_only=*/true));
      l.estimate_s = estimates_.seconds(of_line.tasks.tasks);
    }
    return {};
  }

  std::string lines_path() const { return base_ + ".plans.jsonl"; }

  Result<task::PlannedGraph> planned(plan::Decider decider, bool shapes_only = false) const {
    graph::PassOptions passes = passes_for(options_.compile);
    passes.verify = false;
    passes.shapes_only = shapes_only;
    return task::apply_plan(undecided_, std::move(passes), {}, std::move(decider));
  }
  static Decisions decisions_of(const task::PlannedGraph& planned) {
    Decisions out;
    for (const plan::Decided& d : planned.decided) out[d.point.name] = d.text();
    return out;
  }
  Result<Built> build(task::PlannedGraph planned) const {
    Built out;
    out.decisions = decisions_of(planned);
    out.estimate_s = estimates_.seconds(planned.tasks.tasks);
    for (const task::Task& t : planned.tasks.tasks) out.kernels.push_back({t.key, t.weight});
    out.graph = std::move(planned.graph);
    out.tasks = std::move(planned.tasks);
    TESSERA_TRY(out.model, exec::compile_model(out.graph, out.tasks, options_.compile.target,
                                               build_options(options_.compile)));
    return out;
  }

  // Near a fast plan a few values change; anywhere, any share of all values is drawn.
  Result<task::PlannedGraph> draw(Rng& rng) const {
    decide::Candidate plan = space_->sample(rng);
    const bool near = rng.chance(options_.searched_share) && !lines_.empty();
    if (near) {
      plan = space_->candidate(fast_plan(rng));
      for (std::int64_t n = rng.between(1, kMostChanges); n > 0; --n)
        plan = space_->mutate(plan, rng).value_or(plan);
    } else {
      for (std::int64_t n = rng.below(kMostHalvings + 1); n > 0; --n)
        plan = space_->cross(plan, space_->preferred(), rng).value_or(plan);
    }
    return planned(plan::Decider(space_->decisions(plan)));
  }

  // One of the fastest so far.
  const Decisions& fast_plan(Rng& rng) const {
    std::vector<const Line*> order;
    for (const Line& l : lines_) order.push_back(&l);
    std::stable_sort(order.begin(), order.end(),
                     [](const Line* x, const Line* y) { return x->seconds < y->seconds; });
    order.resize(std::min(order.size(), kPlanParents));
    return order[static_cast<std::size_t>(rng.below(std::ssize(order)))]->decisions;
  }

  // One of the plans that were measured, each as likely.
  Result<task::PlannedGraph> repeat(Rng& rng) const {
    const auto i = static_cast<std::size_t>(rng.below(std::ssize(lines_)));
    return planned(plan::Decider(lines_[i].decisions));
  }

  std::vector<HostTensor> inputs_of(const Built& built) const {
    return random_model_inputs(built.graph, kPlanInputSeed);
  }
  Result<std::vector<HostTensor>> outputs_of(const Built& built) const {
    return exec::run_model(built.model, device_, inputs_of(built));
  }

  // Beside the rules' plan, which tells how fast the machine is at the moment.
  Result<void> measure(const Built& built) {
    exec::ModelRunner rules(rules_.model, device_), other(built.model, device_);
    const std::vector<HostTensor> inputs = inputs_of(built);
    double once_s = 0;  // of the slower one
    for (exec::ModelRunner* runner : {&rules, &other}) {
      for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner->set_input(i, inputs[i]));
      TESSERA_DO(runner->run());
      const Clock::time_point begin = Clock::now();
      TESSERA_DO(runner->run());
      once_s = std::max(once_s, seconds_since(begin));
    }
    runtime::InterleavedTimer timer({.sample_s = kLeastTimed,
                                     .samples = kSamples,
                                     .min_samples = kSamples / 2,
                                     .time_limit_s = std::max(kTimed, kSamples / 2 * once_s)});
    timer.add([&rules] { (void)rules.run(); });
    timer.add([&other] { (void)other.run(); });
    const std::vector<runtime::Samples> times = timer.run();
    // Fast samples: other programs on the machine disturb them least.
    const double rules_s = times[0].p10_s(), other_s = times[1].p10_s();
    double estimate_s = built.estimate_s;
    if (options_.time_kernels) {
      TESSERA_TRY(estimate_s, sum_of_kernels(built, other));
    }
    const double reference_s = lines_.empty() ? rules_s : lines_[0].rules_s;
    lines_.push_back({built.decisions, other_s * reference_s / rules_s, rules_s, estimate_s});
    known_.insert(built.decisions);
    return {};
  }

  // Kernels that no plan before had are timed, each by itself.
  Result<double> sum_of_kernels(const Built& built, exec::ModelRunner& runner) {
    std::vector<std::pair<std::size_t, double*>> fresh;  // steps, and where their time belongs
    std::vector<bool> seen(built.kernels.size());
    for (std::size_t s = 0; s < built.model.steps.size(); ++s) {
      const exec::CompiledModel::Step& step = built.model.steps[s];
      if (step.kind != task::GroupKind::kKernel || seen[step.kernel]) continue;
      seen[step.kernel] = true;
      const auto [known, added] = kernel_s_.try_emplace(built.kernels[step.kernel].key,
                                                        std::numeric_limits<double>::infinity());
      if (added) fresh.emplace_back(s, &known->second);
    }
    for (int i = 0; i < kKernelSamples && !fresh.empty(); ++i) {
      TESSERA_DO(time_cold(built.model, fresh, runner));
    }
    double sum = 0;
    for (const typename Built::Kernel& k : built.kernels) {
      const auto known = kernel_s_.find(k.key);
      if (known != kernel_s_.end()) sum += k.weight * known->second;
    }
    return sum;
  }

  // As between others: what a kernel reads was just computed, its weights are in no cache of the
  // core, since each step runs once after all of them were evicted.
  Result<void> time_cold(const exec::CompiledModel& model,
                         const std::vector<std::pair<std::size_t, double*>>& steps,
                         exec::ModelRunner& runner) {
    evict(model);
    std::size_t last = model.steps.size();  // that ran
    for (const auto& [s, best] : steps) {
      if (s > 0 && s - 1 != last && model.steps[s - 1].kind == task::GroupKind::kKernel) {
        TESSERA_DO(runner.time_step(s - 1, 1));
      }
      TESSERA_TRY(const double seconds, runner.time_step(s, 1));
      *best = std::min(*best, seconds);
      last = s;
    }
    return {};
  }

  // Touches as much as a run of the model does.
  void evict(const exec::CompiledModel& model) {
    const std::int64_t least = 2 * options_.compile.target.l2_bytes;
    const auto bytes = static_cast<std::size_t>(
        std::clamp(model.constant_bytes + model.live_bytes, least, std::max(kMostEvicted, least)));
    if (other_.size() < bytes) other_.resize(bytes);
    for (std::size_t i = 0; i < bytes; i += kLine) ++other_[i];
  }

  const CollectPlansOptions& options_;
  std::string model_;
  runtime::Device& device_;
  PlanEstimates& estimates_;
  std::string base_;
  graph::Graph undecided_;
  std::optional<PlanGraph> graph_;
  std::optional<task::PlanSpace> space_;
  Built rules_;
  std::vector<HostTensor> wanted_;
  std::string unchecked_;  // why the rules' plan was compared with nothing; empty: it was
  std::vector<Line> lines_;
  std::set<Decisions> known_;
  std::set<std::string> agreed_;            // keys of kernels that were compared
  std::map<std::string, double> kernel_s_;  // by key
  std::vector<unsigned char> other_;        // that evicts what caches hold
  std::int64_t earlier_ = 0, failed_ = 0, wrong_ = 0;
};

}  // namespace

Result<CollectPlansResult> collect_plans(const CollectPlansOptions& options,
                                         const CollectPlansCallbacks& callbacks) {
  const Clock::time_point start = Clock::now();
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) {
    return make_error(ErrorCode::kIo, "{}: {}", options.folder, error.message());
  }
  const auto why_stop = [&]() -> std::string {
    if (callbacks.interrupted && callbacks.interrupted()) return "an interrupt";
    return options.budget_s > 0 && seconds_since(start) > options.budget_s ? "budget" : "";
  };
  runtime::CpuDevice device({.threads = options.threads});
  TESSERA_TRY(
      PlanEstimates estimates,
      PlanEstimates::make(options.models_of_kernels, options.compile.target, options.threads));
  CollectPlansResult result;
  for (const std::string& model : options.models) {
    if (!why_stop().empty()) break;
    ModelPlans plans(options, model, device, estimates);
    if (const Result<void> opened = plans.open(); !opened) {
      // Models that cannot be compiled whole, or leave nothing to decide, are not a reason to end.
      if (opened.error().code != ErrorCode::kUnsupported &&
          opened.error().code != ErrorCode::kDataDependent)
        return about_model(opened.error(), model);
      result.skipped.push_back(model + ": " + opened.error().message);
      continue;
    }
    if (!plans.unchecked().empty()) result.unchecked.push_back(model + ": " + plans.unchecked());
    while (!plans.complete() && why_stop().empty()) {
      TESSERA_DO(plans.next());
      if (callbacks.progress) {
        callbacks.progress(
            {model, plans.size(), options.plans, plans.failed(), plans.rules_s(), plans.best_s()});
      }
    }
    TESSERA_DO(plans.write());
    ++result.models;
    result.plans += plans.size();
    result.earlier += plans.earlier();
    result.failed += plans.failed();
    result.wrong += plans.wrong();
  }
  result.stopped_by = why_stop();
  if (result.stopped_by.empty()) result.stopped_by = "all plans";
  return result;
}

}  // namespace tessera::app
