// From what a user names (a file or a built-in network) to an optimised graph.
#pragma once

#include <string>

#include "tessera/app/compile/compile_options.h"
#include "tessera/frontend/task/task.h"

namespace tessera::app {

// `spec` is the path of an ONNX or GGUF file, or zoo:NAME[@parameter=value,...].
Result<onnx::Model> load_onnx(const std::string& spec);

// The same without values of weights (onnx::load_outline). Those of built-in networks are made.
Result<onnx::Model> load_outline(const std::string& spec);

// onnx::check_model of the outline where that suffices, else of the whole model, with large
// constants folded as load_graph does.
Result<onnx::CheckReport> check_model(const std::string& spec, const CompileOptions& options);

// Before any pass. kDataDependent: StagedModel can run it.
Result<graph::Graph> import_graph(const onnx::Model& model, const CompileOptions& options);
Result<graph::Graph> import_graph(const std::string& spec, const CompileOptions& options);
// The same with every decision left open, for who searches plans; takes longer.
Result<graph::Graph> import_undecided(const onnx::Model& model, const CompileOptions& options);
Result<graph::Graph> import_undecided(const std::string& spec, const CompileOptions& options);
// The imported graph with its tasks, as the options decide about it.
Result<task::PlannedGraph> plan_graph(graph::Graph imported, const CompileOptions& options);
// Import and passes.
Result<graph::Graph> load_graph(const onnx::Model& model, const CompileOptions& options);
Result<graph::Graph> load_graph(const std::string& spec, const CompileOptions& options);

}  // namespace tessera::app
