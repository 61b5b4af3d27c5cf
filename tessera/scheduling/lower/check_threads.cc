#include "tessera/scheduling/lower/check_threads.h"

#include <algorithm>

#include "tessera/lang/ir/launch.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/schedule/nest.h"

namespace tessera::lower {
namespace {

using schedule::Annotation;
using schedule::Attach;
using schedule::Iter;
using schedule::Stage;
using schedule::State;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

int block_dim(Annotation a) {
  switch (a) {
    case Annotation::kBlockX:
      return 0;
    case Annotation::kBlockY:
      return 1;
    case Annotation::kBlockZ:
      return 2;
    default:
      return -1;
  }
}

template <class... Args>
Error illegal(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kIllegalSchedule, format, std::forward<Args>(args)...);
}

const Stage& launch_of(const State& state, const Stage& stage) {
  const Stage* s = &stage;
  while (const Stage* next = schedule::stage_around(state, *s)) s = next;
  return *s;
}

// The stage with a loop over virtual threads around the stage, or itself; null if there is none.
const Stage* virtual_threads_around(const State& state, const Stage& stage) {
  std::vector<schedule::NestLoop> loops = schedule::loops_around(state, stage);
  for (const int id : stage.leaves) loops.push_back({&stage, id});
  const auto innermost = std::find_if(loops.rbegin(), loops.rend(), [](const auto& l) {
    return l.it().annotation == Annotation::kVThread;
  });
  return innermost == loops.rend() ? nullptr : innermost->stage;
}

// Rules of one loop, and of one loop after the other.
Result<void> check_loops(const Stage& stage) {
  const bool attached = stage.attach.kind == Attach::Kind::kAt;
  std::vector<Annotation> seen;
  const Iter* vector = nullptr;  // the vectorized loop outside
  const Iter* inner = nullptr;   // the first loop that is not a block
  for (const int id : stage.leaves) {
    const Iter& it = stage.iters[idx(id)];
    const Annotation a = it.annotation;
    if (a == Annotation::kParallel)
      return illegal("loop {} of {} is parallel: on a GPU, bind it to blocks or threads", it.name,
                     stage.name());
    if (a == Annotation::kTensorize && !target::find_warp_matrix(it.intrinsic))
      return illegal("loop {} of {}: {} is not an instruction of GPUs", it.name, stage.name(),
                     it.intrinsic);
    if (a == Annotation::kTensorize && !attached)
      return illegal(
          "loop {} of {} is tensorized, but {} is not computed at a loop over the threads of a "
          "block",
          it.name, stage.name(), stage.name());
    if (schedule::is_block(a)) {
      if (attached)
        return illegal("loop {} of {} is bound to blocks, but {} is computed inside {}", it.name,
                       stage.name(), stage.name(), stage.attach.stage);
      if (inner)
        return illegal("loop {} of {} is bound to blocks, but runs inside loop {}", it.name,
                       stage.name(), inner->name);
    } else if (!inner) {
      inner = &it;
    }
    if (schedule::is_thread(a) && vector)
      return illegal("thread loop {} of {} runs inside vectorized loop {}", it.name, stage.name(),
                     vector->name);
    if (a == Annotation::kVectorize) vector = &it;
    if (a == Annotation::kVThread || (!schedule::is_block(a) && !schedule::is_thread(a))) continue;
    if (std::find(seen.begin(), seen.end(), a) != seen.end())
      return illegal("loop {} of {}: another loop has the same binding", it.name, stage.name());
    seen.push_back(a);
  }
  return {};
}

Result<void> check_scope(const State& state, const Stage& stage) {
  const bool attached = stage.attach.kind == Attach::Kind::kAt;
  bool threads = false;
  const Iter* spatial = nullptr;  // a thread loop over an axis
  int reductions = 0;             // over threads
  for (const int id : stage.leaves) {
    const Iter& it = stage.iters[idx(id)];
    if (thread_dim(it.annotation) < 0) continue;
    threads = true;
    if (it.reduce) ++reductions;
    if (!it.reduce) spatial = &it;
  }
  if (reductions > 1)
    return illegal("stage {} reduces over more than one dimension of threads", stage.name());
  if (!attached) {
    if (stage.scope == "shared")
      return illegal("stage {} is shared, but runs as a launch of its own", stage.name());
    const bool blocks = std::any_of(stage.leaves.begin(), stage.leaves.end(), [&](int id) {
      return schedule::is_block(stage.iters[idx(id)].annotation);
    });
    // A stage without axes has nothing to share.
    if (!blocks && !threads && !stage.op.axes.empty())
      return illegal("no loop of stage {} is bound to blocks or threads", stage.name());
    return {};
  }
  if (stage.scope == "shared" && !threads)
    return illegal("stage {} is shared, but none of its loops is bound to threads", stage.name());
  if (stage.scope != "shared" && spatial)
    return illegal("loop {} of {} is bound to threads, but {} is not shared", spatial->name,
                   stage.name(), stage.name());
  const Stage& target = *state.find(stage.attach.stage);
  for (int p = 0; p <= target.position(stage.attach.iter) && threads; ++p) {
    const Iter& it = target.iters[idx(target.leaves[idx(p)])];
    if (it.annotation == Annotation::kVectorize)
      return illegal("stage {} runs inside vectorized loop {} of {}", stage.name(), it.name,
                     target.name());
  }
  return {};
}

}  // namespace

int thread_dim(Annotation a) {
  switch (a) {
    case Annotation::kThreadX:
      return 0;
    case Annotation::kThreadY:
      return 1;
    case Annotation::kThreadZ:
      return 2;
    default:
      return -1;
  }
}

int thread_dims(const Stage& stage) {
  int dims = 0;
  for (const int id : stage.leaves) {
    const int d = thread_dim(stage.iters[idx(id)].annotation);
    if (d >= 0) dims |= 1 << d;
  }
  return dims;
}

Result<void> check_threads(const State& state) {
  for (const Stage& stage : state.stages) {
    TESSERA_DO(check_loops(stage));
    TESSERA_DO(check_scope(state, stage));
    for (const int id : stage.leaves) {
      const Iter& it = stage.iters[idx(id)];
      if (!it.reduce || thread_dim(it.annotation) < 0) continue;
      if (const Stage* other = virtual_threads_around(state, stage))
        return illegal("stage {} reduces over threads, but runs inside virtual threads of {}",
                       stage.name(), other->name());
    }
  }
  return {};
}

LaunchShape launch_shape(const State& state, const Domains& domains, const Stage& root) {
  LaunchShape shape = make_launch_shape();
  for (const Stage& stage : state.stages) {
    if (&launch_of(state, stage) != &root) continue;
    const StageDomain& d = domains.of.at(&stage);
    for (const int id : stage.leaves) {
      const Annotation a = stage.iters[idx(id)].annotation;
      const std::int64_t extent = d.iter_extents[idx(id)];
      if (const int t = thread_dim(a); t >= 0)
        shape.block[idx(t)] = std::max(shape.block[idx(t)], extent);
      if (const int b = block_dim(a); b >= 0) shape.grid[idx(b)] = extent;
      // Also those threads of a warp that have no element of their own.
      if (const auto* product = target::find_warp_matrix(stage.iters[idx(id)].intrinsic))
        shape.block[0] = std::max<std::int64_t>(shape.block[0], product->threads);
    }
  }
  return shape;
}

}  // namespace tessera::lower
