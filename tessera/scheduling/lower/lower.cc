#include "tessera/scheduling/lower/lower.h"

#include <cstring>

#include "tessera/lang/arith/simplify.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/scheduling/lower/drop_roundings.h"
#include "tessera/scheduling/lower/flatten_buffers.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/lower/partition_loops.h"
#include "tessera/scheduling/lower/tensorize_loops.h"
#include "tessera/scheduling/lower/tensorize_tiles.h"
#include "tessera/scheduling/lower/unroll_loops.h"
#include "tessera/scheduling/lower/vectorize_loops.h"
#include "tessera/scheduling/schedule/inline_stages.h"

namespace tessera::lower {
namespace {

Result<void> check_bindings(const schedule::State& state) {
  for (const schedule::Stage& s : state.stages) {
    for (const int id : s.leaves) {
      const schedule::Iter& it = s.iters[static_cast<std::size_t>(id)];
      if (it.annotation >= schedule::Annotation::kVThread &&
          it.annotation <= schedule::Annotation::kThreadZ) {
        return make_error(ErrorCode::kIllegalSchedule,
                          "loop {} of {} is bound to GPU threads, but the target is a CPU", it.name,
                          s.name());
      }
    }
    for (const int id : s.leaves) {
      const schedule::Iter& it = s.iters[static_cast<std::size_t>(id)];
      if (target::find_warp_matrix(it.intrinsic)) {
        return make_error(ErrorCode::kIllegalSchedule,
                          "loop {} of {}: {} is an instruction of GPUs, but the target is a CPU",
                          it.name, s.name(), it.intrinsic);
      }
    }
    if (!s.pipeline.empty()) {
      return make_error(ErrorCode::kIllegalSchedule,
                        "stage {} has a pipelined loop, but the target is a CPU", s.name());
    }
    if (s.scope == "shared") {
      return make_error(ErrorCode::kIllegalSchedule,
                        "stage {} uses shared memory, but the target is a CPU", s.name());
    }
  }
  return {};
}

ir::Stmt simplify(const ir::Stmt& s) { return arith::simplify(s); }

Result<Lowered> lower_loops(const schedule::State& state, const target::Target& target,
                            const PassOptions& options) {
  TESSERA_DO(check_bindings(state));
  TESSERA_TRY(LoopNest nest, build_loop_nest(schedule::inline_stages(state)));
  const LoopAttrs& attrs = nest.attrs;
  PassRunner pass(nest.func, options);
  pass.run("build_loop_nest",
           [](const ir::Stmt& s) { return s; });  // names the input for --print-after
  pass.run_func("drop_roundings", drop_roundings);
  pass.run("simplify_loops", simplify);
  pass.run("mark_auto_unroll", [&](const ir::Stmt& s) { return mark_auto_unroll(s, attrs); });
  pass.run("partition_loops", [&](const ir::Stmt& s) { return partition_loops(s, attrs); });
  pass.run("trim_loops",
           trim_loops);  // after partition: the rest of a peeled loop has constant bounds
  pass.run("simplify_parts", simplify);
  pass.run_func("flatten_buffers", flatten_buffers);
  pass.run("simplify_indices", simplify);  // linear indices: the vectorizer reads strides off them
  Result<void> tensorized;
  pass.run("tensorize_loops",
           [&](const ir::Stmt& s) { return tensorize_loops(s, attrs, &tensorized); });
  TESSERA_DO(tensorized);
  pass.run("tensorize_tiles",
           [&](const ir::Stmt& s) { return tensorize_tiles(s, attrs, &tensorized); });
  TESSERA_DO(tensorized);
  pass.run("vectorize_loops",
           [&](const ir::Stmt& s) { return vectorize_loops(s, target.vector_bytes); });
  pass.run("unroll_loops",
           unroll_loops);  // last structural pass: it multiplies the work of all later ones
  pass.run("simplify", simplify);
  return Lowered{pass.func(), {}, nest.param_layouts, pass.times(), pass.printed()};
}

}  // namespace

Result<Lowered> lower(const schedule::State& state, const target::Target& target,
                      const PassOptions& options) {
  if (target.row().launches) return lower_device(state, target, options);
  return lower_loops(state, target, options);
}

Result<Lowered> lower(const te::Dag& dag, const schedule::Schedule& schedule,
                      const target::Target& target, const PassOptions& options) {
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
  return lower(state, target, options);
}

std::vector<std::string> pass_names(const target::Target& target) {
  if (target.row().launches) return device_pass_names();
  return {"build_loop_nest",  "drop_roundings",  "simplify_loops",  "mark_auto_unroll",
          "partition_loops",  "trim_loops",      "simplify_parts",  "flatten_buffers",
          "simplify_indices", "tensorize_loops", "tensorize_tiles", "vectorize_loops",
          "unroll_loops",     "simplify"};
}

namespace {

// Elements of a row that stay side by side, in bytes from the beginning of where the row goes.
struct Run {
  std::size_t to = 0, bytes = 0;
};

std::vector<Run> runs_of(const std::vector<std::size_t>& offsets, std::size_t width) {
  std::vector<Run> runs;
  for (const std::size_t offset : offsets) {
    if (!runs.empty() && runs.back().to + runs.back().bytes == offset) {
      runs.back().bytes += width;
    } else {
      runs.push_back({offset, width});
    }
  }
  return runs;
}

// A run of one element is the width of the type, which the compiler then knows.
template <std::size_t kWidth>
const std::byte* copy_runs(const std::vector<Run>& runs, const std::byte* from, std::byte* to) {
  for (const Run& r : runs) {
    if (r.bytes == kWidth) {
      std::memcpy(to + r.to, from, kWidth);
    } else {
      std::memcpy(to + r.to, from, r.bytes);
    }
    from += r.bytes;
  }
  return from;
}

template <std::size_t kWidth>
void scatter(const std::byte* from, const std::vector<std::vector<std::size_t>>& terms,
             std::size_t begin, std::size_t end, std::byte* to) {
  const std::size_t rank = terms.size();
  if (rank == 0) return void(std::memcpy(to, from, kWidth));
  const std::vector<Run> runs = runs_of(terms[rank - 1], kWidth);
  from += begin * terms[rank - 1].size() * kWidth;
  std::vector<std::size_t> index(rank, 0);
  for (std::size_t d = rank - 1, rest = begin; d-- > 0; rest /= terms[d].size()) {
    index[d] = rest % terms[d].size();
  }
  for (std::size_t row = begin; row < end; ++row) {
    std::byte* place = to;
    for (std::size_t d = 0; d + 1 < rank; ++d) place += terms[d][index[d]];
    from = copy_runs<kWidth>(runs, from, place);
    for (std::size_t d = rank - 1; d-- > 0 && ++index[d] == terms[d].size();) index[d] = 0;
  }
}

}  // namespace

Packer::Packer(const HostTensor& tensor, const schedule::Layout& layout)
    : tensor_(tensor), shape_(schedule::layout_shape(layout, tensor.shape())) {
  const std::size_t rank = tensor.shape().size();
  if (tensor.size() == 0) rows_ = 0;
  for (std::size_t d = 0; d + 1 < rank; ++d) rows_ *= static_cast<std::size_t>(tensor.shape()[d]);
  // A storage dimension depends on one index, so the place of an element is a sum of one term per
  // dimension of the tensor.
  terms_.resize(rank);
  for (std::size_t d = 0; d < rank; ++d)
    terms_[d].assign(static_cast<std::size_t>(tensor.shape()[d]), 0);
  auto stride = static_cast<std::size_t>(size_bytes(tensor.dtype()));
  for (std::size_t d = layout.size(); d-- > 0;) {
    std::vector<std::size_t>& of = terms_[static_cast<std::size_t>(layout[d].dim)];
    for (std::size_t i = 0; i < of.size(); ++i) {
      std::int64_t v = static_cast<std::int64_t>(i) / layout[d].divisor;
      if (layout[d].modulus != 0) v %= layout[d].modulus;
      of[i] += static_cast<std::size_t>(v) * stride;
    }
    stride *= static_cast<std::size_t>(shape_[d]);
  }
}

void Packer::copy(std::size_t begin, std::size_t end, HostTensor& to) const {
  if (begin == end) return;
  const auto* from = tensor_.as<std::byte>();
  const int width = size_bytes(tensor_.dtype());
  switch (width) {
    case 1:
      return scatter<1>(from, terms_, begin, end, to.as<std::byte>());
    case 2:
      return scatter<2>(from, terms_, begin, end, to.as<std::byte>());
    case 4:
      return scatter<4>(from, terms_, begin, end, to.as<std::byte>());
    default:
      TESSERA_CHECK(width == 8, "elements of {} bytes", width);
      return scatter<8>(from, terms_, begin, end, to.as<std::byte>());
  }
}

HostTensor pack(const HostTensor& tensor, const schedule::Layout& layout) {
  const Packer packer(tensor, layout);
  HostTensor out = packer.make();
  packer.copy(0, packer.rows(), out);
  return out;
}

}  // namespace tessera::lower
