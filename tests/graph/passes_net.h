// Small networks for the tests of passes, and the checks that every pass must hold.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/support/rng.h"

namespace tessera::graph {

using Integers = std::vector<std::int64_t>;

// A GraphBuilder whose failures throw, as in a test they should.
class Net {
 public:
  explicit Net(std::uint64_t seed = 1) : builder_("net"), rng_(seed) {}

  ValueId input(const Shape& shape, DType dtype = DType::kF32);
  ValueId weights(const Shape& shape, DType dtype = DType::kF32);  // random constant
  ValueId scalar(double value, DType dtype = DType::kF32) { return builder_.scalar(dtype, value); }
  ValueId op(std::string_view name, const std::vector<ValueId>& inputs, Attrs attrs = {});

  ValueId conv(ValueId x, std::int64_t co, std::int64_t kernel, std::int64_t pad = 0,
               std::int64_t stride = 1, std::int64_t group = 1);  // nchw, 2d
  ValueId contract(ValueId x, ValueId y, const char* a, const char* b, const char* out);
  ValueId transpose(ValueId x, const Integers& perm) {
    return op("transpose", {x}, {{"perm", perm}});
  }
  ValueId reshape(ValueId x, const Shape& shape) { return op("reshape", {x}, {{"shape", shape}}); }
  ValueId reduce(ValueId x, const char* kind, const Integers& axes, bool keepdims = true);
  ValueId relu(ValueId x) { return op("max", {x, scalar(0)}); }

  const Shape& shape(ValueId id) const { return builder_.shape(id); }
  Rng& rng() { return rng_; }
  Graph finish(const std::vector<ValueId>& outputs);

 private:
  GraphBuilder builder_;
  Rng rng_;
};

using PassFunction = Result<bool> (*)(Graph&, const PassOptions&);

// Runs the pass on a copy; checks that the result verifies, computes the same on random inputs, and
// that the pass tells the truth about a change. Returns the rewritten graph.
Graph check_pass(const Graph& graph, PassFunction pass, const PassOptions& options = {});

// Fails the test unless both compute the same on random inputs.
void expect_same(const Graph& want, const Graph& got, const std::string& what);

std::int64_t count(const Graph& graph, std::string_view op);
// The node that computes output i.
const Node& last_node(const Graph& graph, std::size_t i = 0);

// A random network of convolutions, pools, residuals, concatenations, transposes, contractions and
// norms on odd sizes.
Graph random_net(std::uint64_t seed);

}  // namespace tessera::graph
