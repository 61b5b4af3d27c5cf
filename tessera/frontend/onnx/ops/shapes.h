// Data movement inside formulas.
#pragma once

#include <vector>

#include "tessera/frontend/onnx/ops/formula.h"

namespace tessera::onnx {

// Elements start, start + step, ... (size of them) along `axis`.
Term slice(Formula& f, Term x, std::size_t axis, std::int64_t start, std::int64_t size,
           std::int64_t step = 1);
// Slice number `index` along `axis`, which goes.
Term pick(Formula& f, Term x, std::size_t axis, std::int64_t index);
// One tensor is returned as it is.
Term concat(Formula& f, const std::vector<Term>& parts, std::size_t axis);
Term transpose(Formula& f, Term x, const std::vector<std::int64_t>& perm);
Term contract(Formula& f, Term x, const char* x_labels, Term y, const char* y_labels,
              const char* out_labels);

}  // namespace tessera::onnx
