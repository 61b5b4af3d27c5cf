#include "tessera/scheduling/space/gpu/gpu_tensor.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "tessera/machine/target/fast_math.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"
#include "tessera/scheduling/space/gpu/gpu_operand.h"
#include "tessera/scheduling/space/gpu/gpu_split_k.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kLeastRows = 5;
constexpr std::int64_t kUnrolledProducts = 1 << 19;  // of a warp, whose windows are copied whole

using Instruction = target::MatrixInstruction;

const Instruction* find_instruction(const target::Target& target, target::Operands operands,
                                    DType type, DType other) {
  if (type == DType::kF32 && target::products_of(target) == Products::kExact) return nullptr;
  return target::find_matrix(target, operands, type, other);
}

class GpuTensor {
 public:
  GpuTensor(Context& context, const Contraction& c, const Nest& nest,
            const Instruction& instruction)
      : context_(context),
        product_(c),
        nest_(nest),
        stage_(context.stage(product_.stage)),
        nest_stage_(context.stage(nest_.stage)),
        instruction_(instruction) {
    if (!product_.rows.empty()) {
      outer_ = static_cast<int>(product_.rows.back());
      product_.rows.pop_back();
    }
  }

  // Operands lie with the sums or their own rows side by side, in the copies too.
  bool fits() {
    const auto cut = find_gpu_cut(context_, product_, instruction_.k);
    if (!cut || product_.row < 0 || product_.a.conditional || product_.b.conditional) return false;
    cut_ = *cut;
    const auto row = static_cast<std::size_t>(product_.row);
    const auto a = make_gpu_operand(context_, product_, product_.a, row, cut_);
    const auto b = make_gpu_operand(context_, product_, product_.b, product_.vector, cut_);
    if (!a || !b) return false;
    operands_ = {*a, *b};
    if (size_bytes(instruction_.types[0]) != 2) {
      // Elements of two bytes can be turned round on their way to registers, others not.
      for (const GpuOperand& o : operands_) {
        const auto& terms = o.access->indices[o.order.back()].terms;
        if (terms.size() != 1 || terms[0].axis != cut_ || terms[0].coefficient != 1) return false;
      }
    }
    problem_ = {.row = stage_.extent(row),
                .column = stage_.extent(product_.vector),
                .reduce = stage_.extent(cut_),
                .bytes = size_bytes(instruction_.types[0]),
                .depth = instruction_.k,
                .outer = outer_ < 0 ? 1 : stage_.extent(static_cast<std::size_t>(outer_)),
                .row_step = step_of(product_.a, product_.row),
                .outer_step = step_of(product_.a, outer_),
                .row_reach = reach_of(product_.a, product_.row),
                .outer_reach = reach_of(product_.a, outer_),
                .planes = gpu_planes(product_.a)};
    for (const auto* axes : {&product_.batch, &product_.rows, &product_.columns}) {
      for (const std::size_t i : *axes) problem_.batch *= stage_.extent(i);
    }
    for (const std::size_t r : product_.reduce) problem_.taps *= r == cut_ ? 1 : stage_.extent(r);
    // Most of a tile would be empty.
    if (problem_.row < kLeastRows || problem_.column < kMmaSide / 2 ||
        problem_.reduce < instruction_.k)
      return false;
    const TensorTile least{
        .warp_rows = kMmaSide, .warp_columns = kMmaSide, .steps = instruction_.k};
    return refuse_tensor_tile(context_.target, problem_, least) == nullptr;
  }

  double cycles() const {  // of the best tile
    return estimate_tensor_cycles(context_.target, problem_,
                                  choose_tensor_tile(context_.target, problem_));
  }

  void run() {
    choose();
    Writer& w = context_.writer;
    sum_ = cut_gpu_sum(context_, product_, nest_, cut_, tile_.split_k);
    for (const GpuOperand& o : operands_) begin_gpu_copy(context_, o, sum_.inner);
    write_launch();
    const std::string step = write_sums();
    for (const GpuOperand& o : operands_) write_copy(o, step);
    w.pragma(sum_.inner, step, problem_.planes > 1 ? "pipeline_pieces" : "pipeline",
             tile_.pipeline_stages);
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
    if (tile_.split_k > 1) add_split_k(context_, product_, nest_, sum_.part);
  }

 private:
  const std::string& name() const { return stage_.op.name; }

  // Elements from one row to the next in their dimension of the operand.
  static std::int64_t step_of(const Access& a, int axis) {
    for (const Index& index : a.indices) {
      for (const IndexTerm& t : index.terms) {
        if (static_cast<int>(t.axis) == axis && t.coefficient != 0) return std::abs(t.coefficient);
      }
    }
    return 1;
  }

  // Elements that windows reach beyond a row, in its dimension of the operand.
  std::int64_t reach_of(const Access& a, int axis) const {
    std::int64_t out = 0;
    for (const Index& index : a.indices) {
      const bool moves = std::any_of(index.terms.begin(), index.terms.end(), [&](const auto& t) {
        return static_cast<int>(t.axis) == axis && t.coefficient != 0;
      });
      for (const IndexTerm& t : index.terms) {
        if (moves && is_tap(t.axis)) out += std::abs(t.coefficient) * (stage_.extent(t.axis) - 1);
      }
    }
    return out;
  }
  // A reduce axis that is not cut into steps.
  bool is_tap(std::size_t axis) const { return axis >= stage_.rank() && axis != cut_; }

  void choose() {
    TensorTile preferred;
    if (!context_.chooser.listed(name(), "warp_rows"))
      preferred = choose_tensor_tile(context_.target, problem_);
    const std::int64_t depth = instruction_.k;
    tile_ = {.steps = depth, .pipeline_stages = 2};
    const auto number = [&](const char* what, std::int64_t TensorTile::*field,
                            std::initializer_list<std::int64_t> values) {
      tile_.*field = context_.chooser.number(
          name(), what, PointKind::kThread, preferred.*field,
          [&] { return std::vector<std::int64_t>(values); },
          [&](std::int64_t n) {
            TensorTile t = tile_;
            t.*field = n;
            return refuse_tensor_tile(context_.target, problem_, t);
          });
    };
    number("warp_rows", &TensorTile::warp_rows, {16, 32, 64, 128});
    number("warp_columns", &TensorTile::warp_columns, {16, 32, 64, 128});
    number("row_warps", &TensorTile::row_warps, {1, 2, 4});
    number("column_warps", &TensorTile::column_warps, {1, 2, 4});
    number("tensor_steps", &TensorTile::steps, {depth, 2 * depth, 4 * depth});
    number("tensor_places", &TensorTile::pipeline_stages, {2, 3, 4, 5});
    number("tensor_parts", &TensorTile::split_k, {1, 2, 3, 4, 6, 8, 12, 16});
    if (outer_ >= 0) number("outer_warps", &TensorTile::outer_warps, {1, 2, 4, 7, 8});
    if (problem_.taps == 1) return;
    tile_.whole_windows = context_.chooser.flag(
        name(), "whole_windows", PointKind::kCache, preferred.whole_windows, [&](std::int64_t v) {
          TensorTile t = tile_;
          t.whole_windows = v == 1;
          return refuse_tensor_tile(context_.target, problem_, t);
        });
  }

  std::string axis_of(std::size_t axis) const {
    return tile_.split_k > 1 ? stage_.axis_name(axis) : nest_stage_.axis_name(nest_.axis[axis]);
  }

  // Blocks, then warps, then the threads of a warp, then what one of them holds.
  void write_launch() {
    Writer& w = context_.writer;
    Loops blocks = gpu_block_loops(context_, product_, nest_, sum_.part);
    const Loops row =
        w.split(sum_.launch, axis_of(static_cast<std::size_t>(product_.row)),
                {tile_.row_warps, tile_.warp_rows / kMmaSide, 2, 8}, schedule::Tail::kGuard);
    const Loops column =
        w.split(sum_.launch, axis_of(product_.vector),
                {tile_.column_warps, tile_.warp_columns / 8, 4, 2}, schedule::Tail::kGuard);
    Loops warps;
    if (outer_ >= 0) {
      const Loops outer = w.split(sum_.launch, axis_of(static_cast<std::size_t>(outer_)),
                                  {tile_.outer_warps}, schedule::Tail::kGuard);
      blocks.push_back(outer[0]);
      warps.push_back(outer[1]);
    }
    blocks.insert(blocks.end(), {row[0], column[0]});
    warps.insert(warps.end(), {row[1], column[1]});
    Loops order = blocks;
    order.insert(order.end(), warps.begin(), warps.end());
    order.insert(order.end(), {row[4], column[3], row[2], row[3]});
    const Loops spread = gpu_spread_loops(context_, nest_, sum_.part);
    order.insert(order.end(), spread.begin(), spread.end());
    order.insert(order.end(), {column[2], column[4]});
    w.reorder(sum_.launch, order);
    for (const std::string& loop : spread) w.unroll(sum_.launch, loop);
    w.annotate(sum_.launch, w.fuse(sum_.launch, blocks), schedule::Annotation::kBlockX);
    const std::string warp = w.fuse(sum_.launch, warps);
    w.annotate(sum_.launch, warp, schedule::Annotation::kThreadY);
    w.annotate(sum_.launch, w.fuse(sum_.launch, {row[4], column[3]}),
               schedule::Annotation::kThreadX);
    for (const std::string& loop : {row[2], row[3], column[2]}) w.unroll(sum_.launch, loop);
    w.vectorize(sum_.launch, column[4]);
    w.compute_at(sum_.inner, sum_.launch, warp);
  }

  // The accumulators of a warp, some steps at a time; returns the loop around those steps.
  std::string write_sums() {
    Writer& w = context_.writer;
    const std::int64_t depth = instruction_.k;
    const Loops steps =
        w.split(sum_.inner, sum_.cut, {tile_.steps / depth, depth}, schedule::Tail::kGuard);
    const Loops row = w.split(sum_.inner, stage_.axis_name(static_cast<std::size_t>(product_.row)),
                              {kMmaSide}, schedule::Tail::kGuard);
    const Loops column =
        w.split(sum_.inner, stage_.axis_name(product_.vector), {kMmaSide}, schedule::Tail::kGuard);
    Loops taps;
    for (const std::size_t r : product_.reduce) {
      if (r != cut_) taps.push_back(stage_.axis_name(r));
    }
    Loops outer = taps;
    outer.push_back(steps[0]);
    Loops order = outer;
    if (tile_.whole_windows) std::rotate(order.begin(), order.end() - 1, order.end());
    order.push_back(steps[1]);
    Loops unrolled = {steps[1], row[0], column[0]};
    if (tile_.split_k > 1) unrolled.push_back(sum_.part);
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      if (i != product_.vector && static_cast<int>(i) != product_.row)
        unrolled.push_back(stage_.axis_name(i));
    }
    order.insert(order.end(), unrolled.begin() + 3, unrolled.end());
    order.insert(order.end(), {row[0], column[0], row[1], column[1], steps[2]});
    w.reorder(sum_.inner, order);
    for (const std::string& loop : unrolled) w.unroll(sum_.inner, loop);
    w.tensorize(sum_.inner, row[1], std::string(instruction_.name));
    if (!tile_.whole_windows) return w.fuse(sum_.inner, outer);
    if (problem_.taps * tile_.warp_rows * tile_.warp_columns * tile_.steps <= kUnrolledProducts) {
      for (const std::string& loop : taps) w.unroll(sum_.inner, loop);
    }
    return steps[0];
  }

  // Elements of a dimension that a block needs for some steps.
  std::int64_t span(const Access& a, std::size_t d) const {
    std::int64_t out = 1;
    for (const IndexTerm& t : a.indices[d].terms) {
      std::int64_t length = 1;
      if (t.axis == product_.vector) length = tile_.columns();
      if (static_cast<int>(t.axis) == product_.row) length = tile_.rows();
      if (static_cast<int>(t.axis) == outer_) length = tile_.outer_warps;
      if (t.axis == cut_) length = tile_.steps;
      if (tile_.whole_windows && is_tap(t.axis)) length = stage_.extent(t.axis);
      out += std::abs(t.coefficient) * (length - 1);
    }
    return std::min(out, std::max<std::int64_t>(1, a.buffer->shape[d]));
  }

  void write_copy(const GpuOperand& o, const std::string& step) {
    Writer& w = context_.writer;
    const Access& a = *o.access;
    const std::string stage = a.buffer->name + ".shared";
    w.compute_at(stage, sum_.inner, step);
    Loops dims;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < o.order.size(); ++i) {
      const std::size_t d = o.transposed ? i : o.order[i];  // transposed: copied as the buffer lies
      dims.push_back("d" + std::to_string(d));
      elements *= span(a, d);
    }
    if (o.moved || o.transposed) w.layout(stage, o.layout());
    if (o.moved) w.reorder(stage, dims);
    const std::int64_t most = kGpuCopyBytes / size_bytes(a.buffer->dtype);
    if (o.order.size() > 1) {  // rows end up in different banks
      const std::size_t row = o.order[o.order.size() - 2];
      w.storage_align(stage, static_cast<int>(row), 2 * most, most);
    }
    const std::int64_t lanes = gpu_copy_lanes(o, span(a, o.order.back()));
    share_gpu_copy(w, stage, dims, elements, lanes, tile_.warps(), context_.target.gpu.warp);
  }

  Context& context_;
  Contraction product_;
  const Nest& nest_;
  const Stage& stage_;
  const Stage& nest_stage_;
  const Instruction& instruction_;
  int outer_ = -1;       // second axis of rows
  std::size_t cut_ = 0;  // reduce axis that goes through shared memory step by step
  std::vector<GpuOperand> operands_;
  TensorProblem problem_;
  TensorTile tile_;
  GpuSum sum_;
};

}  // namespace

bool schedule_gpu_tensor(Context& context, const Contraction& contraction, const Nest& nest) {
  const DType type = contraction.a.buffer->dtype, other = contraction.b.buffer->dtype;
  const std::array instructions = {
      find_instruction(context.target, target::Operands::kFragments, type, other),
      find_instruction(context.target, target::Operands::kTiles, type, other)};
  const Stage& stage = context.stage(contraction.stage);
  const bool sums = std::any_of(instructions.begin(), instructions.end(),
                                [&](const auto* i) { return i && stage.dtype() == i->sums; });
  if (!sums || contraction.a.buffer == contraction.b.buffer) return false;
  std::optional<GpuTensor> tensor;
  if (instructions[0]) {
    tensor.emplace(context, contraction, nest, *instructions[0]);
    if (!tensor->fits()) return false;
  }
  const auto group =
      instructions[1] ? make_gpu_group(context, contraction, nest, *instructions[1]) : nullptr;
  std::vector<const char*> words = {"threads"};
  if (tensor) words.push_back("tensor_cores");
  if (group) words.push_back("warp_groups");
  if (words.size() == 1) return false;
  const bool groups = group && tensor && group->wins(tensor->cycles());
  const int preferred = groups ? 2 : tensor ? 1 : 0;
  const int word =
      context.chooser.word(stage.op.name, "multiply", PointKind::kThread, preferred, words);
  if (word == 0) return false;
  if (word == 1 && tensor) {
    tensor->run();
  } else {
    group->run();
  }
  return true;
}

}  // namespace tessera::space
