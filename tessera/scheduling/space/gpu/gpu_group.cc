#include "tessera/scheduling/space/gpu/gpu_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_operand.h"
#include "tessera/scheduling/space/gpu/gpu_split_k.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kLeastColumns = 32;
// Of what is taken without measuring: rows that leave little of a tile empty.
constexpr std::int64_t kUsualRows = 128, kFullRows = 56;

class Group final : public GpuGroup {
 public:
  Group(Context& context, const Contraction& c, const Nest& nest,
        const target::MatrixInstruction& instruction)
      : context_(context),
        product_(c),
        nest_(nest),
        instruction_(instruction),
        depth_(instruction.k),
        stage_(context.stage(product_.stage)),
        nest_stage_(context.stage(nest_.stage)) {}

  bool fits() {
    const auto cut = find_gpu_cut(context_, product_, depth_);
    if (!cut || product_.row < 0 || product_.a.conditional || product_.b.conditional) return false;
    cut_ = *cut;
    const auto row = static_cast<std::size_t>(product_.row);
    const auto a = make_gpu_operand(context_, product_, product_.a, row, cut_);
    const auto b = make_gpu_operand(context_, product_, product_.b, product_.vector, cut_, true);
    if (!a || !b || !has_dense_rows(product_.a, row) ||
        !has_dense_rows(product_.b, product_.vector))
      return false;
    operands_ = {*a, *b};
    // Only elements of two bytes may lie with the rows or columns of the sums side by side.
    const auto along = [&](const GpuOperand& o) {
      return o.moved || is_last_axis(*o.access, cut_);
    };
    const int bytes = size_bytes(instruction_.types[0]);
    if (bytes != 2 && !(along(*a) && along(*b))) return false;
    problem_ = {.row = stage_.extent(row),
                .column = stage_.extent(product_.vector),
                .reduce = stage_.extent(cut_),
                .bytes = bytes,
                .depth = depth_};
    for (const auto* axes : {&product_.batch, &product_.rows, &product_.columns}) {
      for (const std::size_t i : *axes) problem_.batch *= stage_.extent(i);
    }
    for (const std::size_t r : product_.reduce) problem_.taps *= r == cut_ ? 1 : stage_.extent(r);
    problem_.planes = gpu_planes(product_.a);
    if (gpu_planes(product_.b) != problem_.planes) return false;
    problem_.beside = !b->moved && !is_last_axis(product_.b, cut_);
    problem_.staged = odd_rows();
    // Most of a tile would be empty, or there is nothing to copy ahead.
    if (problem_.row <= kWgmmaRows / 2 || problem_.column < kLeastColumns ||
        problem_.reduce < depth_ ||
        (problem_.reduce + depth_ - 1) / depth_ * (problem_.planes > 1 ? 1 : problem_.taps) < 2)
      return false;
    best_ = choose_group_tile(context_.target, problem_);
    return refuse_group_tile(context_.target, problem_, best_) == nullptr;
  }

  bool wins(double others) const override {
    const bool usual = problem_.row >= kUsualRows || (problem_.row >= kFullRows && is_map());
    return usual && estimate_group_cycles(context_.target, problem_, best_) < others;
  }

  void run() override {
    choose();
    sum_ = staged() ? stage_gpu_sum(context_, product_, nest_, cut_)
                    : cut_gpu_sum(context_, product_, nest_, cut_, tile_.split_k);
    for (const GpuOperand& o : operands_) begin_gpu_copy(context_, o, sum_.inner);
    if (staged()) write_results();
    write_launch();
    const std::string step = write_sums();
    for (const GpuOperand& o : operands_) write_copy(o, step);
    context_.writer.pragma(sum_.inner, step, problem_.planes > 1 ? "pipeline_pieces" : "pipeline",
                           tile_.pipeline_stages);
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
    if (tile_.split_k > 1) add_split_k(context_, product_, nest_, sum_.part);
  }

 private:
  // Rows of several maps or images.
  bool is_map() const { return !product_.rows.empty() && problem_.planes == 1; }

  // Neighbours along the axis are neighbours in one dimension of the operand.
  static bool has_dense_rows(const Access& a, std::size_t axis) {
    int uses = 0;
    for (const Index& index : a.indices) {
      for (const IndexTerm& t : index.terms) {
        if (t.axis != axis) continue;
        if (t.coefficient != 1) return false;
        ++uses;
      }
    }
    return uses == 1;
  }

  void choose() {
    tile_ = {.pipeline_stages = problem_.planes > 1 ? 2 : 3};
    const auto number = [&](const char* what, std::int64_t GroupTile::*field,
                            std::initializer_list<std::int64_t> values) {
      tile_.*field = context_.chooser.number(
          stage_.op.name, what, PointKind::kThread, best_.*field,
          [&] { return std::vector<std::int64_t>(values); },
          [&](std::int64_t n) {
            GroupTile t = tile_;
            t.*field = n;
            return refuse_group_tile(context_.target, problem_, t);
          });
    };
    number("group_columns", &GroupTile::columns, {32, 48, 64, 96, 128, 192, 256});
    number("group_tiles", &GroupTile::row_tiles, {1, 2});
    number("row_groups", &GroupTile::row_groups, {1, 2, 3, 4});
    number("column_groups", &GroupTile::column_groups, {1, 2});
    number("group_places", &GroupTile::pipeline_stages, {2, 3, 4, 5, 6});
    number("group_parts", &GroupTile::split_k, {1, 2, 3, 4, 6, 8, 12});
  }

  std::string axis_of(std::size_t axis) const {
    return tile_.split_k > 1 || staged() ? stage_.axis_name(axis)
                                         : nest_stage_.axis_name(nest_.axis[axis]);
  }

  // Rows of the result begin anywhere: threads that hold two neighbours each could only store
  // single elements, of eight rows at once.
  bool odd_rows() const {
    const std::size_t last = nest_stage_.rank() - 1;
    return nest_.stage != product_.stage && nest_.axis[product_.vector] == last &&
           nest_stage_.extent(last) * size_bytes(nest_stage_.dtype()) % kGpuCopyBytes != 0;
  }
  bool staged() const { return problem_.staged && tile_.split_k == 1; }

  // Lanes of a warp take neighbours of a row.
  void write_results() {
    Writer& w = context_.writer;
    const std::string& host = nest_stage_.op.name;
    const std::int64_t lanes = tile_.all_columns() % 32 == 0 ? 32 : 16;
    const std::int64_t groups = tile_.threads() / kWgmmaThreads, beside = kWgmmaThreads / lanes;
    const Loops row =
        w.split(host, nest_stage_.axis_name(nest_.axis[static_cast<std::size_t>(product_.row)]),
                {tile_.rows() / (groups * beside), groups, beside}, schedule::Tail::kGuard);
    const Loops column = w.split(host, nest_stage_.axis_name(nest_.axis[product_.vector]),
                                 {tile_.all_columns() / lanes, lanes}, schedule::Tail::kGuard);
    Loops blocks = gpu_block_loops(context_, product_, nest_, "");
    blocks.insert(blocks.end(), {row[0], column[0]});
    Loops order = blocks;
    order.insert(order.end(), {row[2], row[3], column[2], row[1], column[1]});
    const Loops spread = gpu_spread_loops(context_, nest_, "");
    order.insert(order.end(), spread.begin(), spread.end());
    w.reorder(host, order);
    for (const std::string& loop : spread) w.unroll(host, loop);
    block_ = w.fuse(host, blocks);
    w.annotate(host, block_, schedule::Annotation::kBlockX);
    w.annotate(host, row[2], schedule::Annotation::kThreadY);
    w.annotate(host, w.fuse(host, {row[3], column[2]}), schedule::Annotation::kThreadX);
    for (const std::string& loop : {row[1], column[1]}) w.unroll(host, loop);
  }

  // Blocks, then groups, then the threads of a group, then what one of them holds.
  void write_launch() {
    Writer& w = context_.writer;
    Loops blocks = staged() ? gpu_untiled_loops(context_, product_)
                            : gpu_block_loops(context_, product_, nest_, sum_.part);
    const Loops row = w.split(sum_.launch, axis_of(static_cast<std::size_t>(product_.row)),
                              {tile_.row_groups, tile_.row_tiles, 4, 2, 8}, schedule::Tail::kGuard);
    const Loops column =
        w.split(sum_.launch, axis_of(product_.vector),
                {tile_.column_groups, tile_.columns / 8, 4, 2}, schedule::Tail::kGuard);
    blocks.insert(blocks.end(), {row[0], column[0]});
    Loops order = blocks;
    order.insert(order.end(), {row[1], column[1], row[3], row[5], column[3], row[2], row[4]});
    const Loops spread = staged() ? Loops{} : gpu_spread_loops(context_, nest_, sum_.part);
    order.insert(order.end(), spread.begin(), spread.end());
    order.insert(order.end(), {column[2], column[4]});
    w.reorder(sum_.launch, order);
    for (const std::string& loop : spread) w.unroll(sum_.launch, loop);
    if (staged()) {
      w.compute_at(sum_.launch, nest_stage_.op.name, block_);
      w.storage_align(sum_.launch, product_.row, kGpuBanks, kGpuStagedPad);
    } else {
      w.annotate(sum_.launch, w.fuse(sum_.launch, blocks), schedule::Annotation::kBlockX);
    }
    const std::string group = w.fuse(sum_.launch, {row[1], column[1]});
    w.annotate(sum_.launch, group, schedule::Annotation::kThreadY);
    w.annotate(sum_.launch, w.fuse(sum_.launch, {row[3], row[5], column[3]}),
               schedule::Annotation::kThreadX);
    for (const std::string& loop : {row[2], row[4], column[2]}) w.unroll(sum_.launch, loop);
    w.vectorize(sum_.launch, column[4]);
    w.compute_at(sum_.inner, sum_.launch, group);
  }

  // The sums of a group, as many steps at a time as a row of its operands has; returns the loop
  // around those steps.
  std::string write_sums() {
    Writer& w = context_.writer;
    const auto split = [&](const std::string& axis, std::int64_t length) {
      return w.split(sum_.inner, axis, {length}, schedule::Tail::kGuard);
    };
    const Loops steps = split(sum_.cut, depth_);
    const Loops row = split(stage_.axis_name(static_cast<std::size_t>(product_.row)), kWgmmaRows);
    const Loops column = split(stage_.axis_name(product_.vector), tile_.columns);
    Loops taps, outer;
    for (const std::size_t r : product_.reduce) {
      if (r != cut_) taps.push_back(stage_.axis_name(r));
    }
    const bool whole = problem_.planes > 1;  // each copy serves all taps
    if (!whole) outer = taps;
    outer.push_back(steps[0]);
    Loops unrolled;
    if (whole) unrolled = taps;
    if (tile_.split_k > 1) unrolled.push_back(sum_.part);
    const Loops others = gpu_untiled_loops(context_, product_);
    unrolled.insert(unrolled.end(), others.begin(), others.end());
    unrolled.insert(unrolled.end(), {row[0], column[0]});
    Loops order = outer;
    order.insert(order.end(), unrolled.begin(), unrolled.end());
    order.insert(order.end(), {row[1], column[1], steps[1]});
    w.reorder(sum_.inner, order);
    for (const std::string& loop : unrolled) w.unroll(sum_.inner, loop);
    w.tensorize(sum_.inner, row[1], std::string(instruction_.name));
    return whole ? steps[0] : w.fuse(sum_.inner, outer);
  }

  // Elements of a dimension that a block needs for some steps.
  std::int64_t span(const Access& a, std::size_t d) const {
    if (!a.indices[d].irregular.empty()) return a.buffer->shape[d];
    std::int64_t out = 1;
    for (const IndexTerm& t : a.indices[d].terms) {
      if (t.axis == product_.vector) out += tile_.all_columns() - 1;
      if (static_cast<int>(t.axis) == product_.row) out += tile_.rows() - 1;
      if (t.axis == cut_) out += depth_ - 1;
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
    for (const std::size_t d : o.order) {
      dims.push_back("d" + std::to_string(d));
      elements *= span(a, d);
    }
    const std::size_t last = o.order.back();
    if (o.moved) {
      w.layout(stage, o.layout());
      w.reorder(stage, dims);
    } else if (!is_last_axis(a, cut_)) {  // rows of 64, and the next 64 after all of them
      schedule::Layout cut = o.layout();
      const std::ptrdiff_t planes = problem_.planes > 1 ? 1 : 0;  // come before them
      cut.insert(cut.begin() + planes, schedule::LayoutDim{static_cast<int>(last), depth_});
      cut.back().modulus = depth_;
      w.layout(stage, cut);
    }
    const std::int64_t lanes = gpu_copy_lanes(o, span(a, last));
    share_gpu_copy(w, stage, dims, elements, lanes, tile_.threads() / kWgmmaThreads, kWgmmaThreads);
  }

  Context& context_;
  const Contraction& product_;
  const Nest& nest_;
  const target::MatrixInstruction& instruction_;
  const std::int64_t depth_;  // of the instruction
  const Stage& stage_;
  const Stage& nest_stage_;
  std::size_t cut_ = 0;  // reduce axis that goes through shared memory step by step
  std::vector<GpuOperand> operands_;
  TensorProblem problem_;
  GroupTile best_, tile_;
  GpuSum sum_;
  std::string block_;  // of the host, where results are staged
};

}  // namespace

std::unique_ptr<GpuGroup> make_gpu_group(Context& context, const Contraction& contraction,
                                         const Nest& nest,
                                         const target::MatrixInstruction& instruction) {
  auto group = std::make_unique<Group>(context, contraction, nest, instruction);
  return group->fits() ? std::move(group) : nullptr;
}

}  // namespace tessera::space
