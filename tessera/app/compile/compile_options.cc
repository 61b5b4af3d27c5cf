#include "tessera/app/compile/compile_options.h"

#include <algorithm>
#include <map>

#include "tessera/app/compile/float_products.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/support/byte_stream.h"

namespace tessera::app {

graph::PassOptions passes_for(const CompileOptions& options) {
  graph::PassOptions passes;
  passes.skip = options.optimize ? options.skip_passes : graph::pass_names();
  // What the machine cannot compute with is not a choice: unoptimized, too, it is f32.
  if (!options.optimize) std::erase(passes.skip, "widen_floats");
  passes.floats = options.floats;
  passes.rounding = options.rounding;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    if (!multiplies(options.target, type)) passes.widened.insert(type);
  }
  passes.narrow_windows = options.target.is_gpu();
  passes.rules = plan::rules_for(options.target);
  if (options.plan)
    passes.decider = std::make_shared<plan::Decider>(options.plan->plan().decisions);
  return passes;
}

std::int64_t integer_products_for(const CompileOptions& options) {
  if (options.integer_products) return *options.integer_products;
  // Images are unsigned and weights signed.
  const auto has = [&](target::Operands operands) {
    return target::find_matrix(options.target, operands, DType::kU8, DType::kI8) != nullptr;
  };
  // One instruction of a processor adds four products.
  return has(target::Operands::kFragments) ? 1 : has(target::Operands::kLanes) ? 4 : 0;
}

exec::ModelOptions build_options(const CompileOptions& options) {
  exec::ModelOptions build;
  build.build_threads = options.build_threads;
  build.cache = options.cache;
  if (options.plan) build.schedule = options.plan->schedules();
  build.progress = options.progress;
  return build;
}

namespace {

// Out of every member of the options: each function names all members of its struct, so that one
// more does not compile before somebody says whether code follows from it.
class Digest {
 public:
  std::string take() const { return writer_.bytes(); }

  template <class... T>
  void operator()(const T&... values) {
    (add(values), ...);
  }

  void add(bool value) { writer_.number(value ? 1 : 0); }
  void add(int value) { writer_.number(value); }
  void add(std::int64_t value) { writer_.number(value); }
  void add(double value) { writer_.text(fmt::format("{}", value)); }
  void add(DType value) { writer_.text(to_text(value)); }
  void add(const std::string& value) { writer_.text(value); }
  void add(const Shape& value) { writer_.text(to_text(value)); }
  void add(const HostTensor& tensor) {
    writer_.text(to_text(graph::TensorType{tensor.dtype(), tensor.shape()}));
    writer_.text({static_cast<const char*>(tensor.data()), tensor.bytes()});
  }
  void add(const std::vector<std::string>& values) {
    writer_.number(static_cast<std::int64_t>(values.size()));
    for (const std::string& value : values) add(value);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class T>
  void add(const std::map<std::string, T>& values) {
    writer_.number(static_cast<std::int64_t>(values.size()));
    for (const auto& [name, value] : values) (*this)(name, value);
  }

  void add(const onnx::ImportOptions& import) {
    const auto& [shapes, symbols, assumed_size, values, literals, override_declared, builder, warn,
                 max_nodes, max_loop_steps, unrolled_nodes] = import;
    const auto& [evaluate, fold_limit] = builder;
    (void)warn, (void)evaluate;  // models with the latter are not kept
    (*this)(shapes, symbols, assumed_size, values, literals, override_declared, fold_limit,
            max_nodes, max_loop_steps, unrolled_nodes);
  }
  void add(const plan::Rules& rules) {
    const auto& [winograd, min_channels, min_size, depth, windows, transposed, flops_per_byte,
                 pointwise_as_product, merge_contractions, slices_in_place, moves_inside,
                 attention_keys, split_products, split_rows, split_columns, rounded_products,
                 records_launches] = rules;
    (*this)(winograd, min_channels, min_size, depth, windows, transposed, flops_per_byte,
            pointwise_as_product, merge_contractions, slices_in_place, moves_inside, attention_keys,
            split_products, split_rows, split_columns, rounded_products, records_launches);
  }
  void add(const PlanSchedules& plan) { (*this)(plan.strict(), plan::to_json(plan.plan())); }
  void add(const CompileOptions& options) {
    const auto& [target, import, integer_products, optimize, skip_passes, floats, rounding, fuse,
                 plan, cost_model, language, build_threads, cache, progress, note, accept] =
        options;
    (void)build_threads, (void)cache, (void)progress, (void)note, (void)accept;
    (*this)(target::to_text(target), target::to_text(target.rates), plan::rules_for(target), import,
            integer_products, optimize, skip_passes, floats, static_cast<int>(rounding), fuse, plan,
            cost_model, language);
  }

 private:
  ByteWriter writer_;
};

}  // namespace

std::string compile_digest(const CompileOptions& options) {
  Digest digest;
  digest(options);
  return digest.take();
}

}  // namespace tessera::app
