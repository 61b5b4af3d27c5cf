#include "tessera/frontend/graph/passes/passes.h"

#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/op.h"
#include "tessera/support/clock.h"

namespace tessera::graph {
namespace {

struct Pass {
  const char* name;
  Result<bool> (*run)(Graph&, const PassOptions&);
};

const std::vector<Pass>& pass_list() {
  static const std::vector<Pass> list = {
      // First of all: what was not chosen would count as a reader of what it has in common.
      {"choose_integers", choose_integers},
      // Before what computes with constants: what is widened is one.
      {"choose_storage", choose_storage},
      // Early: what folds or chooses by type sees the type that is computed in.
      {"widen_floats", widen_floats},
      {"simplify", simplify},
      {"merge_common", merge_common},
      // Needs x * x for pow(x, 2), and one node for a difference that was exported twice.
      {"match_norms", match_norms},
      // Before layouts: the constants still line up with the channel axis of the model.
      {"fold_scales", fold_scales},
      // Before layouts as well: channels are one axis of the model's.
      {"absorb_shuffles", absorb_shuffles},
      // After what computes weights and finds norms, before what chooses by type.
      {"narrow_floats", narrow_floats},
      {"absorb_transposes", absorb_transposes},
      {"open_image_norms", open_image_norms},
      {"simplify", simplify},  // the reshapes round an opened group norm meet
      {"channels_last", channels_last},
      {"move_transposes", move_transposes},
      {"absorb_transposes", absorb_transposes},
      // Again: factors now stand next to the products that transposes hid.
      {"fold_scales", fold_scales},
      // Before algorithms are chosen: each part has its own.
      {"split_concats", split_concats},
      // After channels_last: the algorithms exist for that layout only.
      {"select_algorithms", select_algorithms},
      {"simplify", simplify},
      {"merge_common", merge_common},
      // Again: a convolution that became a contract takes any order.
      {"move_transposes", move_transposes},
      {"absorb_transposes", absorb_transposes},
      {"merge_contractions", merge_contractions},
      // After 1x1 convolutions became products, and the last that permutes their labels.
      {"fold_gates", fold_gates},
      // After all that moves transposes: what is left is what they could not move.
      {"read_images", read_images},
      // After all that looks for convolutions and their neighbours in the shape of images.
      {"sink_reshapes", sink_reshapes},
      // After all that rewrites contracts: they would have to know of parts of operands.
      {"absorb_slices", absorb_slices},
      // Last of all: no other pass knows products of parts, or of constants in storage.
      {"split_floats", split_floats},
      {"store_constants", store_constants},
      {"simplify", simplify},
      {"remove_dead", remove_dead},
  };
  return list;
}

// Up to its first run, no pass decides but those about constants.
constexpr const char* kLastUndecided = "fold_scales";

// Products of which the first passes decide how they read constants.
bool has_open_constants(const Graph& graph, const PassOptions& options) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) {
                       return node.op->is(fact::kUnpacks) ||
                              std::string_view(node.op->name) == "either";
                     }) ||
         std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& v) {
           return v.is_constant && options.widened.contains(v.type.dtype);
         });
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<void> check_names(const PassOptions& options) {
  const std::vector<std::string> known = pass_names();
  std::vector<std::string> given = options.skip;
  if (!options.stop_after.empty()) given.push_back(options.stop_after);
  for (const std::string& name : options.print_after) {
    if (name != "all") given.push_back(name);
  }
  for (const std::string& name : given) {
    if (contains(known, name)) continue;
    return make_error(ErrorCode::kInvalidArgument, "there is no graph pass {}; there are {}", name,
                      fmt::join(known, ", "));
  }
  return {};
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : pass_list()) {
    if (!contains(names, pass.name)) names.emplace_back(pass.name);
  }
  return names;
}

Result<PassReport> optimize(Graph& graph, const PassOptions& options) {
  TESSERA_DO(check_names(options));
  PassReport report;
  for (const Pass& pass : pass_list()) {
    if (contains(options.skip, pass.name)) continue;
    const auto start = Clock::now();
    const Result<bool> changed = pass.run(graph, options);
    if (!changed) return changed.error().with_context(pass.name);
    compact(graph);
    report.times.push_back({pass.name, milliseconds_since(start), *changed});
    if (options.verify) {
      const Result<void> ok = verify(graph);
      TESSERA_CHECK(ok.ok(), "graph pass {} broke the graph: {}\n{}", pass.name, ok.error().message,
                    to_text(graph));
    }
    if (contains(options.print_after, pass.name) || contains(options.print_after, "all")) {
      report.printed += fmt::format("// after {}\n{}\n", pass.name, to_text(graph));
    }
    if (options.stop_after == pass.name) break;
  }
  return report;
}

Result<void> optimize_undecided(Graph& graph, PassOptions options) {
  if (has_open_constants(graph, options)) return {};
  options.stop_after = kLastUndecided;
  TESSERA_DO(optimize(graph, options));
  return {};
}

}  // namespace tessera::graph
