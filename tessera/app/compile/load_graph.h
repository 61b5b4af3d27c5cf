// From what a user names (a file or a built-in network) to an optimised graph.
#pragma once

#include <string>

#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

// What the passes know of the machine that the graph is for.
graph::PassOptions passes_for(const target::Target& target);
// LoadOptions::integer_products where the machine multiplies bytes at once.
std::int64_t integer_products_for(const target::Target& target);

// As they are: for this machine.
struct LoadOptions {
  onnx::ImportOptions import;
  graph::PassOptions passes = passes_for(target::host());
  bool optimize = true;  // false: the graph as import leaves it
  // QDQ models multiply bytes where a multiple of so many elements is summed (0: nowhere;
  // onnx/integer_products.h), unless f32 is computed in another type.
  std::int64_t integer_products = integer_products_for(target::host());
  std::shared_ptr<const kernel::KernelCache> cache;  // of the code that folds constants
};

// For that machine.
LoadOptions load_options_for(const target::Target& target);

// `spec` is the path of an ONNX file, or zoo:NAME[@parameter=value,...].
Result<onnx::Model> load_onnx(const std::string& spec);

// The same without values of weights (onnx::load_outline). Those of built-in networks are made.
Result<onnx::Model> load_outline(const std::string& spec);

// onnx::check_model of the outline where that suffices, else of the whole model, with large
// constants folded as load_graph does.
Result<onnx::CheckReport> check_model(const std::string& spec, const LoadOptions& options);

// Import and passes. kDataDependent: run_split can run it.
Result<graph::Graph> load_graph(const onnx::Model& model, const LoadOptions& options);
Result<graph::Graph> load_graph(const std::string& spec, const LoadOptions& options);

}  // namespace tessera::app
