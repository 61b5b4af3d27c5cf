#include "tessera/scheduling/lower/lower_device.h"

#include <set>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tessera/scheduling/lower/drop_roundings.h"
#include "tessera/scheduling/lower/flatten_buffers.h"
#include "tessera/scheduling/lower/insert_barriers.h"
#include "tessera/scheduling/lower/pipeline_loops.h"
#include "tessera/scheduling/lower/reuse_shared.h"
#include "tessera/scheduling/lower/split_launches.h"
#include "tessera/scheduling/lower/swizzle_tiles.h"
#include "tessera/scheduling/lower/tensorize_warps.h"
#include "tessera/scheduling/lower/unroll_loops.h"
#include "tessera/scheduling/lower/vectorize_loops.h"
#include "tessera/scheduling/lower/widen_stores.h"
#include "tessera/scheduling/schedule/inline_stages.h"

namespace tessera::lower {
namespace {

// The widest access of a thread.
constexpr int kAccessBytes = 16;

ir::Stmt simplify(const ir::Stmt& s) { return arith::simplify(s); }

Result<Lowered> lower_for(const schedule::State& state, std::int64_t warp,
                          const PassOptions& options) {
  TESSERA_TRY(LoopNest nest, build_loop_nest(schedule::inline_stages(state), warp));
  const LoopAttrs& attrs = nest.attrs;
  PassRunner pass(nest.func, options);
  pass.run("build_loop_nest", [](const ir::Stmt& s) { return s; });
  pass.run_func("drop_roundings", drop_roundings);
  pass.run("simplify_loops", simplify);
  Result<void> tensorized;
  pass.run("tensorize_warps", [&](const ir::Stmt& s) {  // before flattening: tiles have two sides
    return tensorize_warps(s, attrs, &tensorized);
  });
  TESSERA_DO(tensorized);
  pass.run("mark_auto_unroll", [&](const ir::Stmt& s) { return mark_auto_unroll(s, attrs); });
  pass.run_func("flatten_buffers", flatten_buffers);
  pass.run("simplify_indices", simplify);
  pass.run("insert_barriers", insert_barriers);  // before unrolling: copies keep the barriers
  std::set<ir::Buffer> copied;
  Result<void> pipelined;
  pass.run("pipeline_loops", [&](const ir::Stmt& s) {  // replaces barriers of its loops
    return pipeline_loops(s, attrs, &copied, &pipelined);
  });
  TESSERA_DO(pipelined);
  pass.run("reuse_shared", reuse_shared);
  pass.run("vectorize_loops", [](const ir::Stmt& s) { return vectorize_loops(s, kAccessBytes); });
  pass.run("unroll_loops", unroll_loops);
  pass.run("simplify", simplify);
  Result<void> swizzled;
  pass.run("swizzle_tiles", [&](const ir::Stmt& s) { return swizzle_tiles(s, &swizzled); });
  TESSERA_DO(swizzled);
  pass.run("widen_stores", widen_stores);
  pass.run("start_copies", [&](const ir::Stmt& s) { return start_copies(s, copied); });
  Lowered out{
      {}, split_launches(pass.func(), attrs), nest.param_layouts, pass.times(), pass.printed()};
  const std::vector<te::Input>& inputs = state.dag.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].constant) out.program.constants.push_back(out.program.params[i]);
  if (options.verify && options.stop_after.empty() && options.skip.empty()) {
    const Result<void> ok = ir::verify(out.program);
    TESSERA_CHECK(ok.ok(), "split_launches broke the IR: {}\n{}", ok.error().message,
                  ir::to_text(out.program));
  }
  return out;
}

}  // namespace

Result<Lowered> lower_device(const schedule::State& state, const PassOptions& options) {
  return lower_for(state, ir::kUsualWarp, options);
}

Result<Lowered> lower_device(const schedule::State& state, const target::Target& target,
                             const PassOptions& options) {
  const std::int64_t warp = target.gpu.warp > 0 ? target.gpu.warp : ir::kUsualWarp;
  TESSERA_TRY(Lowered out, lower_for(state, warp, options));
  if (options.limits) TESSERA_DO(check_limits(out.program, launch_limits(target)));
  return out;
}

Result<Lowered> lower_device(const te::Dag& dag, const schedule::Schedule& schedule,
                             const PassOptions& options) {
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
  return lower_device(state, options);
}

std::vector<std::string> device_pass_names() {
  return {"build_loop_nest",  "drop_roundings",  "simplify_loops",   "tensorize_warps",
          "mark_auto_unroll", "flatten_buffers", "simplify_indices", "insert_barriers",
          "pipeline_loops",   "reuse_shared",    "vectorize_loops",  "unroll_loops",
          "simplify",         "swizzle_tiles",   "widen_stores",     "start_copies"};
}

}  // namespace tessera::lower
