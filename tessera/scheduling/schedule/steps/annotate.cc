// annotate, tensorize, pragma, prefetch.
#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {
namespace {

struct AnnotationName {
  Annotation annotation;
  const char* name;
};

constexpr std::array kAnnotations = {
    AnnotationName{Annotation::kNone, "none"},
    AnnotationName{Annotation::kUnroll, "unroll"},
    AnnotationName{Annotation::kVectorize, "vectorize"},
    AnnotationName{Annotation::kParallel, "parallel"},
    AnnotationName{Annotation::kVThread, "vthread"},
    AnnotationName{Annotation::kBlockX, "blockIdx.x"},
    AnnotationName{Annotation::kBlockY, "blockIdx.y"},
    AnnotationName{Annotation::kBlockZ, "blockIdx.z"},
    AnnotationName{Annotation::kThreadX, "threadIdx.x"},
    AnnotationName{Annotation::kThreadY, "threadIdx.y"},
    AnnotationName{Annotation::kThreadZ, "threadIdx.z"},
};

constexpr const char *kPipeline = "pipeline", *kPieces = "pipeline_pieces";
constexpr std::int64_t kMaxPipeline = 8;

}  // namespace

std::string Annotate::args() const {
  for (const AnnotationName& a : kAnnotations) {
    if (a.annotation == annotation) return fmt::format("{} {} {}", stage, iter, a.name);
  }
  TESSERA_CHECK(false, "annotation {} has no name", static_cast<int>(annotation));
}

Result<void> Annotate::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(const int id, s->find_leaf(iter));
  Iter& it = s->iters[static_cast<std::size_t>(id)];
  // Threads of a GPU can combine their partial results; lowering says where.
  const bool exchange = is_thread(annotation) && annotation != Annotation::kVThread;
  const bool parallel_like =
      annotation != Annotation::kNone && annotation != Annotation::kUnroll && !exchange;
  if (it.reduce && parallel_like) {
    return illegal(
        "loop {} is a reduction: its iterations depend on each other (rfactor makes them "
        "independent)",
        iter);
  }
  // A stage computed at another runs over a part of its axes only: lowering checks that part.
  const bool whole = s->attach.kind != Attach::Kind::kAt;
  if (whole && annotation == Annotation::kVectorize && it.extent > kMaxVector) {
    return illegal("cannot vectorize {} iterations of {}; split it first", it.extent, iter);
  }
  if (whole && annotation == Annotation::kUnroll && it.extent > kMaxUnroll) {
    return illegal("cannot unroll {} iterations of {}; split it first", it.extent, iter);
  }
  it.annotation = annotation;
  return {};
}

Result<Step> parse_annotate(ArgReader& args) {
  Annotate s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(const std::string name, args.word("annotation"));
  for (const AnnotationName& a : kAnnotations) {
    if (name == a.name) {
      s.annotation = a.annotation;
      return Step(s);
    }
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown annotation '{}'", name);
}

std::string Tensorize::args() const { return fmt::format("{} {} {}", stage, iter, intrinsic); }

Result<void> Tensorize::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(const int id, s->find_leaf(iter));
  Iter& it = s->iters[static_cast<std::size_t>(id)];
  it.annotation = Annotation::kTensorize;
  it.intrinsic = intrinsic;
  return {};
}

Result<Step> parse_tensorize(ArgReader& args) {
  Tensorize s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.intrinsic, args.word("intrinsic"));
  if (target::find_matrix(s.intrinsic)) return Step(s);
  std::vector<std::string_view> names;
  for (const target::MatrixInstruction& row : target::matrix_instructions()) {
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown intrinsic '{}'; intrinsics are: {}",
                    s.intrinsic, fmt::join(names, " "));
}

std::string Pragma::args() const { return fmt::format("{} {} {} {}", stage, iter, key, value); }

Result<void> Pragma::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(const int id, s->find_leaf(iter));
  if (key == kPipeline || key == kPieces) {
    if (value < 2 || value > kMaxPipeline)
      return illegal("{} must be in 2..{}, not {}", key, kMaxPipeline, value);
    s->pipeline[id] = {.stages = value, .pieces = key == kPieces};
    return {};
  }
  if (value < 0 || value > 4096)
    return illegal("auto_unroll_max_step must be in 0..4096, not {}", value);
  s->auto_unroll[id] = value;
  return {};
}

Result<Step> parse_pragma(ArgReader& args) {
  Pragma s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.key, args.word("pragma"));
  if (s.key != "auto_unroll_max_step" && s.key != kPipeline && s.key != kPieces) {
    return make_error(ErrorCode::kInvalidArgument,
                      "unknown pragma '{}'; pragmas are: auto_unroll_max_step {} {}", s.key,
                      kPipeline, kPieces);
  }
  TESSERA_TRY(s.value, args.number("value"));
  return Step(s);
}

std::string PrefetchStep::args() const {
  return fmt::format("{} {} {} {}", stage, iter, buffer, distance);
}

Result<void> PrefetchStep::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(const int id, s->find_leaf(iter));
  if (distance < 0 || distance > 4096)
    return illegal("distance must be in 0..4096, not {}", distance);
  bool found = false;
  for (const ir::Expr& v : s->op.values) {
    ir::for_each_expr(v, [&](const ir::Expr& e) {
      if (const auto* load = e.as<ir::Load>()) found = found || load->buffer->name == buffer;
    });
  }
  if (!found) return illegal("stage {} does not read {}", stage, buffer);
  s->prefetches.push_back({.iter = id, .buffer = buffer, .distance = distance});
  return {};
}

Result<Step> parse_prefetch(ArgReader& args) {
  PrefetchStep s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.buffer, args.word("buffer"));
  TESSERA_TRY(s.distance, args.number("distance"));
  return Step(s);
}

}  // namespace tessera::schedule
