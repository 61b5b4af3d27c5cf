#include "tessera/backend/exec/compile_model.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "tessera/backend/exec/build_model.h"
#include "tessera/backend/exec/prepared_model.h"
#include "tessera/backend/exec/share_constants.h"
#include "tessera/backend/exec/step_order.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/frontend/graph/op.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"

namespace tessera::exec {
namespace {

using graph::kNoValue;
using graph::ValueId;

// Of kernels that may run side by side, times the memory that they need one after the other.
constexpr double kMostMemory = 2;

// Runs fn(0..n-1) on the building threads; returns the error of the smallest failing index. A bug
// that a thread meets is the caller's to report.
Result<void> for_each_task(std::size_t n, const ModelOptions& options,
                           const std::function<Result<void>(std::size_t)>& fn,
                           bool report_progress = true) {
  const std::size_t threads =
      std::min(n, static_cast<std::size_t>(options.build_threads > 0 ? options.build_threads
                                                                     : target::usable_cpus()));
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  std::optional<std::pair<std::size_t, Error>> failure;
  std::exception_ptr bug;
  const auto guarded = [&](std::size_t i) -> Result<void> {
    try {
      return fn(i);
    } catch (const InternalError&) {
      const std::lock_guard lock(mutex);
      if (!bug) bug = std::current_exception();
      next = n;
      return {};
    }
  };
  const auto work = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      const Result<void> result = guarded(i);
      const std::lock_guard lock(mutex);
      ++done;
      if (!result && (!failure || i < failure->first)) failure = {i, result.error()};
      if (report_progress && options.progress) options.progress(done, n);
    }
  };
  std::vector<std::jthread> pool;
  for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  pool.clear();
  if (bug) std::rethrow_exception(bug);
  if (failure) return failure->second;
  return {};
}

Result<std::optional<schedule::Schedule>> given_schedule(const task::Task& task,
                                                         const ModelOptions& options) {
  std::optional<schedule::Schedule> given;
  if (options.schedule) {
    TESSERA_TRY(given, options.schedule(task));
  }
  return given;
}

Result<kernel::LoadedKernel> load_task(const task::Task& task, const target::Target& target,
                                       const ModelOptions& options) {
  TESSERA_TRY(const std::optional<schedule::Schedule> given, given_schedule(task, options));
  return kernel::load_or_build(task.dag, given, target,
                               {.build = {.codegen = options.codegen, .symbol = ""},
                                .cache = options.cache.get(),
                                .device = options.device});
}

// One constant on its way into the model, in parts that any thread may do. What it is made of is
// held no longer than that.
class PackedConstant {
 public:
  PackedConstant(const schedule::Layout& layout, HostTensor* constant)
      : layout_(layout), constant_(constant) {
    constexpr std::size_t kPartBytes = std::size_t{4} << 20;
    // The file of a model may change while the model runs.
    const bool stays = layout.empty() && !constant->is_view();
    if (!stays) left_ = parts_ = std::max<std::size_t>(1, constant->bytes() / kPartBytes);
  }

  std::size_t parts() const { return parts_; }

  void run(std::size_t part) {
    std::call_once(begun_, [&] { begin(); });
    const auto share = [&](std::size_t all, std::size_t i) { return all / parts_ * i; };
    const std::size_t all = packer_ ? packer_->rows() : from_.bytes();
    const std::size_t first = share(all, part);
    const std::size_t last = part + 1 == parts_ ? all : share(all, part + 1);
    if (packer_) {
      packer_->copy(first, last, to_);
    } else if (first != last) {
      std::memcpy(to_.as<char>() + first, from_.as<char>() + first, last - first);
    }
    if (--left_ == 0) end();
  }

 private:
  void begin() {
    from_ = std::move(*constant_);
    if (layout_.empty()) {
      to_ = HostTensor(from_.dtype(), from_.shape());
    } else {
      packer_.emplace(from_, layout_);
      to_ = packer_->make();
    }
  }
  void end() {
    *constant_ = std::move(to_);
    packer_.reset();
    from_ = HostTensor();
  }

  const schedule::Layout& layout_;
  HostTensor* constant_;
  std::once_flag begun_;
  std::optional<lower::Packer> packer_;
  HostTensor from_, to_;
  std::size_t parts_ = 0;
  std::atomic<std::size_t> left_{0};
};

std::string model_digest(const target::Target& target, const std::vector<std::uint64_t>& kernels) {
  std::uint64_t hash = hash_bytes(target::to_text(target));
  for (const std::uint64_t kernel : kernels) hash = hash_bytes(to_hex(kernel), hash);
  return to_hex(hash);
}

// Gives each distinct (value, layout) one packed tensor.
class ConstantPool {
 public:
  ConstantPool(const graph::Graph& graph, CompiledModel* model) : graph_(graph), model_(model) {}

  std::size_t add(ValueId id, const schedule::Layout& layout) {
    const std::string order = layout.empty() ? "" : to_text(layout);
    const auto [it, added] =
        index_.try_emplace(fmt::format("{}:{}", id, order), model_->constants.size());
    if (added) {
      model_->constants.push_back(*graph_.constant(id));
      model_->constant_names.push_back({graph_.value(id).name, order});
      layouts_.push_back(layout);
    }
    return it->second;
  }

  // The tensors in their orders: the last thing, all of them at once.
  Result<void> pack(const ModelOptions& options) {
    std::deque<PackedConstant> packed;
    std::vector<std::pair<PackedConstant*, std::size_t>> parts;
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      PackedConstant& one = packed.emplace_back(layouts_[i], &model_->constants[i]);
      for (std::size_t part = 0; part < one.parts(); ++part) parts.emplace_back(&one, part);
    }
    return for_each_task(
        parts.size(), options,
        [&](std::size_t i) -> Result<void> {
          parts[i].first->run(parts[i].second);
          return {};
        },
        /*report_progress=*/false);
  }

 private:
  const graph::Graph& graph_;
  CompiledModel* model_;
  std::map<std::string, std::size_t> index_;
  std::vector<schedule::Layout> layouts_;  // by constant
};

// What the kernels of the tasks need, by task.
struct Needs {
  explicit Needs(std::size_t tasks) : layouts(tasks), temporaries(tasks) {}
  void take(std::size_t task, kernel::Kernel& kernel) {
    layouts[task] = std::move(kernel.param_layouts);
    temporaries[task] = kernel.binary.temporaries;
  }
  std::vector<std::vector<schedule::Layout>> layouts;  // by parameter
  std::vector<std::vector<std::int64_t>> temporaries;
};

MemoryOptions memory_options(const task::TaskGraph& tasks, const Needs& needs,
                             const target::Target& target, bool side_by_side) {
  MemoryOptions out;
  if (!target.is_gpu()) return out;
  out.alignment = runtime::Device::kPartAlignment;
  // Only whole models are recorded so, not their parts between operators of the host.
  const bool whole =
      std::none_of(tasks.groups.begin(), tasks.groups.end(),
                   [](const task::Group& g) { return g.kind == task::GroupKind::kHost; });
  if (whole && side_by_side) out.side_by_side = kMostMemory;
  for (const std::int32_t call : tasks.call_of_group) {
    out.temporaries.emplace_back();
    if (call < 0) continue;
    out.temporaries.back() = needs.temporaries[tasks.calls[static_cast<std::size_t>(call)].task];
  }
  return out;
}

class Assembler {
 public:
  // side_by_side: kernels of a GPU may run so.
  Assembler(graph::Graph& graph, const task::TaskGraph& tasks, const Needs& needs,
            CompiledModel* model, bool side_by_side = false)
      : graph_(graph),
        uses_(graph::find_uses(graph)),
        tasks_(tasks),
        needs_(needs),
        plan_(plan_memory(graph, tasks.groups,
                          memory_options(tasks, needs, model->target, side_by_side))),
        constants_(graph, model),
        model_(model) {}

  // Takes the constants out of the graph.
  Result<void> run(const ModelOptions& options) {
    for (std::size_t g = 0; g < tasks_.groups.size(); ++g) {
      const task::Group& group = tasks_.groups[g];
      if (group.kind == task::GroupKind::kKernel) {
        add_kernel(tasks_.calls[static_cast<std::size_t>(tasks_.call_of_group[g])]);
      } else if (group.kind == task::GroupKind::kHost) {
        add_host(group);
      }
    }
    for (const OutputCopy& copy : plan_.copies) {
      model_->copies.push_back({storage(copy.from, {}), copy.output});
    }
    for (graph::Value& v : graph_.values) v.constant = HostTensor();
    TESSERA_DO(constants_.pack(options));
    model_->arena_bytes = plan_.arena_bytes;
    model_->live_bytes = plan_.live_bytes;
    for (const HostTensor& t : model_->constants) {
      model_->constant_bytes += static_cast<std::int64_t>(t.bytes());
    }
    describe_interface();
    return {};
  }

 private:
  Storage storage(ValueId id, const schedule::Layout& layout) {
    Storage s = plan_.of_value[static_cast<std::size_t>(id)];
    // The plan names the constant at the root of reshapes; its bytes are the same.
    if (s.place == Place::kConstant) {
      s.index = constants_.add(graph_.constant(id) ? id : static_cast<ValueId>(s.index), layout);
    }
    return s;
  }

  void add_kernel(const task::Call& call) {
    const task::Task& task = tasks_.tasks[call.task];
    const task::Group& group = tasks_.groups[call.group];
    CompiledModel::Step step;
    step.kernel = call.task;
    step.name = task.name;
    step.origin = graph_.nodes[static_cast<std::size_t>(group.nodes[0])].origin;
    step.flops = task.flops;
    step.bytes = task.bytes;
    for (std::size_t i = 0; i < call.params.size(); ++i) {
      step.params.push_back(storage(call.params[i], needs_.layouts[call.task][i]));
    }
    step.reads = step.params.size();
    for (ComputedIndices& found : find_computed_indices(graph_, uses_, group.nodes, call.params)) {
      const auto param = std::find(call.params.begin(), call.params.end(), found.value);
      step.indices.emplace_back(param - call.params.begin(), std::move(found));
    }
    for (const ValueId id : group.outputs) step.params.push_back(storage(id, {}));
    if (!plan_.temporaries.empty()) {
      const std::vector<Storage>& own = plan_.temporaries[call.group];
      step.params.insert(step.params.end(), own.begin(), own.end());
    }
    model_->steps.push_back(std::move(step));
  }

  void add_host(const task::Group& group) {
    const graph::Node& node = graph_.nodes[static_cast<std::size_t>(group.nodes[0])];
    CompiledModel::Step step;
    step.kind = task::GroupKind::kHost;
    step.name = node.op->name;
    step.origin = node.origin;
    step.op = node.op;
    step.attrs = node.attrs;
    for (const ValueId id : node.inputs) {
      step.omitted.push_back(id == kNoValue);
      if (id == kNoValue) continue;
      step.params.push_back(storage(id, {}));
      step.input_types.push_back(graph_.type(id));
      step.bytes +=
          static_cast<double>(elements(graph_.shape(id))) * size_bytes(graph_.type(id).dtype);
    }
    step.reads = step.params.size();
    for (const ValueId id : node.outputs) {
      step.params.push_back(storage(id, {}));
      step.output_types.push_back(graph_.type(id));
    }
    model_->steps.push_back(std::move(step));
  }

  void describe_interface() {
    model_->name = graph_.name;
    for (const ValueId id : graph_.inputs) {
      model_->input_names.push_back(graph_.value(id).name);
      model_->input_types.push_back(graph_.type(id));
    }
    model_->output_names = graph_.output_names;
    for (const ValueId id : graph_.outputs) model_->output_types.push_back(graph_.type(id));
    model_->index_checks = find_index_checks(graph_);
  }

  graph::Graph& graph_;
  const graph::Uses uses_;
  const task::TaskGraph& tasks_;
  const Needs& needs_;
  MemoryPlan plan_;
  ConstantPool constants_;
  CompiledModel* model_;
};

// By constant: its digest, where it is the model's own and others may take it.
using OwnConstants = std::vector<std::string>;

// Lets the model read what others of this process hold.
Result<OwnConstants> take_shared_constants(const ModelOptions& options, CompiledModel* model) {
  OwnConstants own(model->constants.size());
  TESSERA_DO(for_each_task(
      own.size(), options,
      [&](std::size_t i) -> Result<void> {
        HostTensor& constant = model->constants[i];
        if (!is_shared(constant)) return {};
        own[i] = constant_digest(constant);
        if (take_shared_constant(own[i], &constant)) own[i].clear();
        return {};
      },
      /*report_progress=*/false));
  return own;
}

// Constants that nobody else has and that have no huge pages of their own share some, in the order
// of their use: a model streams through all of them, and would look up every small page.
void gather_constants(const OwnConstants& own, CompiledModel* model) {
  const auto room = [](const HostTensor& t) {
    constexpr std::size_t kAlignment = 64;  // and as much to read behind the last element
    return (t.bytes() / kAlignment + 2) * kAlignment;
  };
  std::vector<HostTensor*> gathered;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    HostTensor& t = model->constants[i];
    const bool taken = own[i].empty() && is_shared(t);
    if (taken || t.bytes() >= runtime::AlignedBuffer::kHugePageBytes) continue;
    gathered.push_back(&t);
    bytes += room(t);
  }
  if (bytes < runtime::AlignedBuffer::kHugePageBytes) return;
  const auto memory = std::make_shared<runtime::AlignedBuffer>(bytes);
  std::byte* at = memory->data();
  for (HostTensor* t : gathered) {
    std::memcpy(at, t->data(), t->bytes());
    std::byte* from = at;
    at += room(*t);
    *t = HostTensor::view(t->dtype(), t->shape(), memory, from);
  }
}

// The constants of `model` to the device, each once.
Result<void> upload_constants(runtime::Device& device, CompiledModel* model) {
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const HostTensor& t : model->constants) {
    offsets.push_back(bytes);
    constexpr std::size_t kStep = runtime::Device::kPartAlignment;
    bytes += (t.bytes() + kStep - 1) / kStep * kStep;
  }
  TESSERA_TRY(model->constant_memory, runtime::DeviceBuffer::make(device, bytes));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const HostTensor& t = model->constants[i];
    void* part = nullptr;
    if (t.bytes() > 0) {
      TESSERA_TRY(part, device.part(model->constant_memory.get(), offsets[i], t.bytes()));
      TESSERA_DO(device.upload(part, t.data(), t.bytes()));
    }
    model->device_constants.push_back(part);
  }
  return {};
}

}  // namespace

Result<void> check_memory(const graph::Graph& graph) {
  const auto available = static_cast<double>(target::usable_memory());
  const auto bytes = [&](ValueId id) {
    double total = static_cast<double>(size_bytes(graph.type(id).dtype));
    for (const std::int64_t d : graph.type(id).shape) total *= static_cast<double>(d);
    return total;
  };
  double kept = 0, largest = 0;
  for (const ValueId id : graph.inputs) kept += bytes(id);
  for (const ValueId id : graph.outputs) kept += bytes(id);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    largest = std::max(largest, bytes(static_cast<ValueId>(i)));
  }
  const double needed = std::max(kept, largest);
  if (available <= 0 || needed <= available) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "a run needs at least {:.1f} GB of memory; this process can use {:.1f} GB",
                    needed * 1e-9, available * 1e-9);
}

Result<CompiledModel> compile_model(const graph::Graph& graph, const target::Target& target,
                                    const ModelOptions& options) {
  TESSERA_TRY(const task::TaskGraph tasks, task::extract_tasks(graph));
  return compile_model(graph, tasks, target, options);
}

Result<CompiledModel> compile_model(const graph::Graph& graph, const task::TaskGraph& tasks,
                                    const target::Target& target, const ModelOptions& options) {
  return compile_with_code(graph, tasks, target, options, nullptr);
}

Result<CompiledModel> compile_with_code(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const ModelOptions& options,
                                        std::vector<runtime::Binary>* code) {
  const bool here = !options.device || options.device->features().in_process;
  if (here ? !target::runs_on_host(target) : target.kind != options.device->target().kind) {
    return make_error(ErrorCode::kUnsupported, "code for {} does not run on {}", target.name,
                      here ? "this machine" : options.device->target().name);
  }
  TESSERA_DO(check_memory(graph));
  CompiledModel model;
  model.target = target;
  model.launches = tasks.launches;
  const auto start = Clock::now();
  Needs needs(tasks.tasks.size());
  model.kernels.resize(tasks.tasks.size());
  if (code) code->resize(tasks.tasks.size());
  std::vector<std::uint64_t> digests(tasks.tasks.size());
  std::atomic<std::int64_t> found{0};
  TESSERA_DO(for_each_task(tasks.tasks.size(), options, [&](std::size_t i) -> Result<void> {
    const task::Task& task = tasks.tasks[i];
    Result<kernel::LoadedKernel> one = load_task(task, target, options);
    if (!one) return one.error().with_context(fmt::format("task {}", task.name));
    found += one->found ? 1 : 0;
    needs.take(i, one->kernel);
    digests[i] = one->kernel.digest;
    if (code) (*code)[i] = std::move(one->kernel.binary);
    model.kernels[i] = std::move(one->code);
    return {};
  }));
  model.cached_kernels = found;
  model.digest = model_digest(target, digests);
  if (options.cache && found < static_cast<std::int64_t>(tasks.tasks.size())) {
    options.cache->disk().trim();
  }
  const bool beside = options.device && options.device->features().plans;
  TESSERA_DO(Assembler(graph, tasks, needs, &model, beside).run(options));
  if (here) {
    TESSERA_TRY(const OwnConstants own, take_shared_constants(options, &model));
    gather_constants(own, &model);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!own[i].empty()) offer_constant(own[i], model.constants[i]);
    }
  } else {
    TESSERA_DO(upload_constants(*options.device, &model));
  }
  model.build_ms = milliseconds_since(start);
  return model;
}

bool has_branches(const graph::Graph& graph, const task::TaskGraph& tasks,
                  const target::Target& target) {
  if (target.kind != target::Kind::kCuda) return false;
  if (tasks.launches == plan::kInOrder || tasks.launches == plan::kFetching) return false;
  const bool decided = tasks.launches != plan::kTimed;
  return widest_join(order_of(graph, tasks.groups)) >= (decided ? 2 : kManyBranches);
}

Result<CompiledModel> build_model(graph::Graph graph, const task::TaskGraph& tasks,
                                  const target::Target& target, const ModelOptions& options,
                                  const AheadOfTime& ahead, std::vector<runtime::Binary>* code) {
  CompiledModel model;
  model.target = target;
  const auto start = Clock::now();
  Needs needs(tasks.tasks.size());
  code->resize(tasks.tasks.size());
  std::vector<std::uint64_t> digests(tasks.tasks.size());
  TESSERA_DO(for_each_task(tasks.tasks.size(), options, [&](std::size_t i) -> Result<void> {
    const task::Task& task = tasks.tasks[i];
    TESSERA_TRY(const std::optional<schedule::Schedule> given, given_schedule(task, options));
    Result<kernel::Kernel> one = kernel::build_kernel(
        task.dag, given, target,
        {.codegen = options.codegen, .symbol = ahead.symbol ? ahead.symbol(i) : ""});
    if (!one) return one.error().with_context(fmt::format("task {}", task.name));
    needs.take(i, *one);
    digests[i] = one->digest;
    (*code)[i] = std::move(one->binary);
    return {};
  }));
  model.digest = model_digest(target, digests);
  TESSERA_DO(Assembler(graph, tasks, needs, &model, ahead.branches).run(options));
  model.build_ms = milliseconds_since(start);
  return model;
}

}  // namespace tessera::exec
