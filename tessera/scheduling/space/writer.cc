#include "tessera/scheduling/space/writer.h"

#include <fmt/format.h>

namespace tessera::space {

Loops Writer::split(const std::string& stage, const std::string& loop,
                    std::vector<std::int64_t> lengths, schedule::Tail tail) {
  // Any name that is short.
  if (!writes()) return Loops(lengths.size() + 1, ".");
  Loops parts;
  for (std::size_t i = 0; i <= lengths.size(); ++i) parts.push_back(fmt::format("{}.{}", loop, i));
  schedule_.steps.emplace_back(schedule::Split{.stage = stage,
                                               .iter = loop,
                                               .lengths = std::move(lengths),
                                               .from_outer = false,
                                               .tail = tail});
  return parts;
}

std::string Writer::fuse(const std::string& stage, const Loops& loops) {
  if (loops.size() == 1 || !writes()) return loops[0];
  std::string name = loops[0];
  for (std::size_t i = 1; i < loops.size(); ++i) name += "@" + loops[i];
  schedule_.steps.emplace_back(schedule::Fuse{.stage = stage, .iters = loops});
  return name;
}

void Writer::reorder(const std::string& stage, const Loops& loops) {
  if (!writes()) return;
  schedule_.steps.emplace_back(schedule::Reorder{.stage = stage, .iters = loops});
}

void Writer::annotate(const std::string& stage, const std::string& loop,
                      schedule::Annotation kind) {
  if (!writes()) return;
  schedule_.steps.emplace_back(
      schedule::Annotate{.stage = stage, .iter = loop, .annotation = kind});
}

void Writer::parallel(const std::string& stage, const std::string& loop) {
  annotate(stage, loop, schedule::Annotation::kParallel);
}

void Writer::vectorize(const std::string& stage, const std::string& loop) {
  annotate(stage, loop, schedule::Annotation::kVectorize);
}

void Writer::unroll(const std::string& stage, const std::string& loop) {
  annotate(stage, loop, schedule::Annotation::kUnroll);
}

void Writer::tensorize(const std::string& stage, const std::string& loop,
                       const std::string& instruction) {
  if (!writes()) return;
  schedule_.steps.emplace_back(
      schedule::Tensorize{.stage = stage, .iter = loop, .intrinsic = instruction});
}

void Writer::compute_at(const std::string& stage, const std::string& target,
                        const std::string& loop) {
  if (!writes()) return;
  schedule_.steps.emplace_back(schedule::ComputeAt{.stage = stage, .target = target, .iter = loop});
}

void Writer::compute_inline(const std::string& stage) {
  if (!writes()) return;
  schedule_.steps.emplace_back(schedule::ComputeInline{.stage = stage});
}

std::string Writer::cache_read(const std::string& buffer, const std::string& reader,
                               const std::string& scope) {
  if (writes()) {
    schedule_.steps.emplace_back(
        schedule::CacheRead{.buffer = buffer, .scope = scope, .readers = {reader}});
  }
  return buffer + "." + scope;
}

std::string Writer::cache_write(const std::string& stage, const std::string& scope) {
  if (writes()) schedule_.steps.emplace_back(schedule::CacheWrite{.stage = stage, .scope = scope});
  return stage + "." + scope;
}

std::string Writer::rfactor(const std::string& stage, const std::string& loop, std::size_t axis,
                            int repeat) {
  if (!writes()) return stage;
  schedule_.steps.emplace_back(
      schedule::RFactor{.stage = stage, .iter = loop, .axis = static_cast<int>(axis)});
  return repeat == 1 ? stage + ".rf" : fmt::format("{}.rf{}", stage, repeat);
}

void Writer::prefetch(const std::string& stage, const std::string& loop, const std::string& buffer,
                      std::int64_t distance) {
  if (!writes()) return;
  schedule_.steps.emplace_back(
      schedule::PrefetchStep{.stage = stage, .iter = loop, .buffer = buffer, .distance = distance});
}

void Writer::layout(const std::string& buffer, schedule::Layout layout) {
  if (!writes()) return;
  schedule_.steps.emplace_back(schedule::SetLayout{.buffer = buffer, .layout = std::move(layout)});
}

void Writer::pragma(const std::string& stage, const std::string& loop, const std::string& key,
                    std::int64_t value) {
  if (!writes()) return;
  schedule_.steps.emplace_back(
      schedule::Pragma{.stage = stage, .iter = loop, .key = key, .value = value});
}

void Writer::storage_align(const std::string& stage, int dim, std::int64_t factor,
                           std::int64_t offset) {
  if (!writes()) return;
  schedule_.steps.emplace_back(
      schedule::StorageAlign{.stage = stage, .dim = dim, .factor = factor, .offset = offset});
}

}  // namespace tessera::space
