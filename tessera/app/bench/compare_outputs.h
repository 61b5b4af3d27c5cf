// Compares what two builds of a model computed.
#pragma once

#include <vector>

#include "tessera/frontend/graph/graph.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/tolerance.h"

namespace tessera::app {

// Whether every value is NaN.
bool is_no_number(const HostTensor& t);

// Largest difference, relative to the range of `want` (at least 1e-6); infinite when shapes differ,
// when one is NaN where the other is not, and when all is NaN: that verifies nothing.
// Elements that differ by `none` at most do not.
double range_error(const HostTensor& got, const HostTensor& want, double none = 0);
// The largest over_tolerance(range_error) of the outputs of `graph`, each with the tolerance that
// its own ancestry gives it: above 1 is wrong. Of quantised outputs the mean difference counts, not
// the largest: that finds a wrong network, not a wrong number (check_kernels.h does).
double worst_output(const graph::Graph& graph, const std::vector<HostTensor>& got,
                    const std::vector<HostTensor>& want, Products products = Products::kExact);

// Whether there are outputs whose every value is not a number, on both sides alike, and all others
// agree: nothing is wrong, but nothing is proved either.
bool agree_but_for_no_numbers(const graph::Graph& graph, std::vector<HostTensor> got,
                              std::vector<HostTensor> want);

// Per output of the graph: whether integers of 8 or 16 bits that rounding decides are on the way to
// it. Such a number may be the next one in another build, and the next layers carry that on.
std::vector<bool> quantised_outputs(const graph::Graph& graph);

// What can be said of two builds of a quantised network, of all its outputs together.
struct OutputAgreement {
  double equal = 0;       // share of the numbers that are the same
  double mean_error = 0;  // mean difference, relative to the range of an output
  double argmax = 0;      // share of the rows, along the last axis, whose largest is the same
};
OutputAgreement agreement(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want);

}  // namespace tessera::app
