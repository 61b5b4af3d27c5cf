// ONNX model -> Graph with concrete shapes. Shape arithmetic, constant branches, loops of constant
// length and model-local functions are resolved on the way.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

struct ImportOptions {
  // Shapes of inputs by name ("--shape data:1x3x224x224").
  std::map<std::string, Shape> shapes;
  // Sizes of symbolic dimensions by name. Others are what the nodes of the model imply, and 1 where
  // they are batches; what is then left is refused, or of `assumed_size` where that is set.
  std::map<std::string, std::int64_t> symbols;
  std::optional<std::int64_t> assumed_size;
  // Values of inputs by name: they are constants of the imported graph. With every input given the
  // whole model is computed on the way (data-dependent shapes included): all outputs are constants.
  std::map<std::string, HostTensor> values;
  // The same as text, in the type that the model declares: "0.5", "true", "[1,2,3]"; one number
  // fills the declared shape.
  std::map<std::string, std::string> literals;
  // Given shapes and values may contradict the sizes that the model declares.
  bool override_declared = false;
  graph::BuilderOptions builder;
  // Told what is wrong with the model and was mended (import_order.h); null: nobody.
  std::function<void(const std::string&)> warn;
  std::int64_t max_nodes = 2'000'000;  // of the finished graph: loops that unroll without end
  // Steps of one Loop or Scan; more are refused, as is a Loop whose condition never ends.
  std::int64_t max_loop_steps = 100'000;
  // A Loop or Scan that would become more nodes than this (and has more than kFewSteps steps) is
  // kDataDependent: somebody runs its body, imported once, step by step.
  std::int64_t unrolled_nodes = INT64_MAX;
};
inline constexpr std::int64_t kFewSteps = 16;
// Why a loop of more than max_loop_steps is refused.
Error too_many_steps(std::int64_t limit);

// kUnsupported lists every node that has no import function, with operator, version and reason.
// kDataDependent: a shape or a branch depends on the values of inputs; give `values`.
// kInvalidArgument: the model contradicts itself (cycle, unknown name, wrong shape), naming the
// node.
Result<graph::Graph> import_model(const Model& model, const ImportOptions& options = {});

// A model cut where values decide about shapes.
struct SplitModel {
  // What is known without the values of inputs. Its outputs are those of the model that it
  // computes and what `ready` and `later` read of it, by name.
  graph::Graph known;
  // Nodes that need values: `ready` those that read nothing but inputs and outputs of `known`,
  // `later` what follows from them, in order.
  std::vector<Node> ready, later;
  std::vector<Initializer> constants;  // that they read
  std::string reason;                  // why there are any; empty: `known` is the whole model
};
// Fails as import_model does, but for kDataDependent.
Result<SplitModel> split_model(const Model& model, const ImportOptions& options = {});

// The nodes that do not wait for values, as a model; its outputs are those of `known` above.
Result<Model> known_part(const Model& model, const ImportOptions& options = {});

// One line of `tessera check`.
struct NodeIssue {
  std::string node, op, reason;  // op: "Gelu-20"
  std::string function = {};     // of the host: the operator's name in the graph
};
struct CheckReport {
  std::int64_t nodes = 0;
  std::map<std::string, std::int64_t> operators;  // "Conv-11" -> how many nodes
  std::vector<NodeIssue> unsupported;
  std::vector<NodeIssue>
      data_dependent;  // supported, but shapes follow from data: the library runs it in stages
  // Supported, but by no kernel: functions of the host compute them. Of what comes before data
  // decides.
  std::vector<NodeIssue> host;
  // Sizes that nobody gave: those that the nodes of the model imply, and those that are free, with
  // what the model was checked with.
  std::map<std::string, std::int64_t> implied, assumed;
};
// Never fails for an unsupported model: that is what the report is for. Where sizes are free it
// tries some that are common.
Result<CheckReport> check_model(const Model& model, const ImportOptions& options = {});
// The same of what load_outline gave, without reading weights. Nothing where the report might
// follow from their values; `options.warn` is told what check_model tells it where there is a
// report.
std::optional<CheckReport> check_outline(const Model& outline, const ImportOptions& options = {});

}  // namespace tessera::onnx
