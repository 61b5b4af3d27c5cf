// Columns of FeatureKind::kStatement. The first 164 are those of Ansor in their order; then what a
// CPU kernel lives by and the machine.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "tessera/scheduling/feature/machine_columns.h"
#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using View = StatementView;

struct Row {
  const char* name;
  float (*read)(const View& v);
};

struct SlotRow {
  const char* name;
  float (*read)(const Slot& s);
};

double points(const View& v) { return v.statement->points; }
float flag(bool b) { return b ? 1 : 0; }
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

constexpr Row kOpRows[] = {
    {"float_mad", [](const View& v) { return slog(v.statement->float_ops.mad * points(v)); }},
    {"float_addsub", [](const View& v) { return slog(v.statement->float_ops.add * points(v)); }},
    {"float_mul", [](const View& v) { return slog(v.statement->float_ops.mul * points(v)); }},
    {"float_divmod", [](const View& v) { return slog(v.statement->float_ops.div * points(v)); }},
    {"float_cmp", [](const View& v) { return slog(v.statement->float_ops.compare * points(v)); }},
    {"float_math_func",
     [](const View& v) { return slog(v.statement->float_ops.math * points(v)); }},
    {"float_other_func",
     [](const View& v) { return slog(v.statement->float_ops.other * points(v)); }},
    {"int_mad", [](const View& v) { return slog(v.statement->int_ops.mad * points(v)); }},
    {"int_addsub", [](const View& v) { return slog(v.statement->int_ops.add * points(v)); }},
    {"int_mul", [](const View& v) { return slog(v.statement->int_ops.mul * points(v)); }},
    {"int_divmod", [](const View& v) { return slog(v.statement->int_ops.div * points(v)); }},
    {"int_cmp", [](const View& v) { return slog(v.statement->int_ops.compare * points(v)); }},
    {"int_math_func", [](const View& v) { return slog(v.statement->int_ops.math * points(v)); }},
    {"int_other_func", [](const View& v) { return slog(v.statement->int_ops.other * points(v)); }},
    {"bool_op", [](const View& v) { return slog(v.statement->bool_ops * points(v)); }},
    {"select_op", [](const View& v) { return slog(v.statement->select_ops * points(v)); }},
};

constexpr const char* kPositionNames[kPositions] = {
    "none",         "inner_spatial", "middle_spatial", "outer_spatial",
    "inner_reduce", "middle_reduce", "outer_reduce",   "mixed",
};

// The extent of the loops that a statement binds; 1 where it binds none.
template <schedule::Annotation kBound>
float bound_length(const View& v) {
  double length = 1;
  for (const Loop& l : v.statement->loops) length *= l.annotation == kBound ? l.extent : 1;
  return slog(length);
}

constexpr Row kThreadRows[] = {
    {"is_gpu", [](const View& v) { return flag(v.target->row().launches); }},
    {"blockIdx_x_len", bound_length<schedule::Annotation::kBlockX>},
    {"blockIdx_y_len", bound_length<schedule::Annotation::kBlockY>},
    {"blockIdx_z_len", bound_length<schedule::Annotation::kBlockZ>},
    {"threadIdx_x_len", bound_length<schedule::Annotation::kThreadX>},
    {"threadIdx_y_len", bound_length<schedule::Annotation::kThreadY>},
    {"threadIdx_z_len", bound_length<schedule::Annotation::kThreadZ>},
    {"vthread_len", [](const View& v) { return slog(v.vthreads); }},
};

// A value for each reuse; what is not reused counts double.
float per_reuse(const Slot& s, double value) {
  return slog(s.count > 0.5 ? value / s.count : 2 * value);
}

constexpr SlotRow kSlotRows[] = {
    {"acc_read", [](const Slot& s) { return flag(s.access->read && !s.access->write); }},
    {"acc_write", [](const Slot& s) { return flag(s.access->write && !s.access->read); }},
    {"acc_read_write", [](const Slot& s) { return flag(s.access->read && s.access->write); }},
    {"bytes", [](const Slot& s) { return slog(s.bytes); }},
    {"unique_bytes", [](const Slot& s) { return slog(s.unique_bytes); }},
    {"lines", [](const Slot& s) { return slog(s.lines); }},
    {"unique_lines", [](const Slot& s) { return slog(s.unique_lines); }},
    {"reuse_loop", [](const Slot& s) { return flag(s.reuse == Reuse::kLoop); }},
    {"reuse_serial", [](const Slot& s) { return flag(s.reuse == Reuse::kSerial); }},
    {"reuse_none", [](const Slot& s) { return flag(s.reuse == Reuse::kNone); }},
    {"reuse_dis_iter", [](const Slot& s) { return slog(s.distance_iterations); }},
    {"reuse_dis_bytes", [](const Slot& s) { return slog(s.distance_bytes); }},
    {"reuse_ct", [](const Slot& s) { return slog(s.count); }},
    {"bytes_d_reuse_ct", [](const Slot& s) { return per_reuse(s, s.bytes); }},
    {"unique_bytes_d_reuse_ct", [](const Slot& s) { return per_reuse(s, s.unique_bytes); }},
    {"lines_d_reuse_ct", [](const Slot& s) { return per_reuse(s, s.lines); }},
    {"unique_lines_d_reuse_ct", [](const Slot& s) { return per_reuse(s, s.unique_lines); }},
    {"stride", [](const Slot& s) { return slog(s.stride); }},
};

double allocated_bytes(const View& v) {
  for (const Access& a : v.statement->accesses) {
    if (a.write) return v.statement->allocated * a.element_bytes;
  }
  return 0;
}

constexpr Row kNestRows[] = {
    {"alloc_size", [](const View& v) { return slog(allocated_bytes(v)); }},
    {"alloc_prod", [](const View& v) { return slog(v.statement->allocated * v.outer_points); }},
    {"alloc_outer_prod",
     [](const View& v) { return v.statement->allocated > 0 ? slog(v.outer_points) : 0.0f; }},
    {"alloc_inner_prod",
     [](const View& v) {
       return v.statement->allocated > 0 ? slog(points(v) / v.outer_points) : 0.0f;
     }},
    {"outer_prod", [](const View& v) { return slog(points(v)); }},
    {"num_loops",
     [](const View& v) { return slog(static_cast<double>(v.statement->loops.size())); }},
    {"auto_unroll_max_step", [](const View& v) { return slog(v.statement->max_unroll); }},
};

double instructions(const View& v) {
  const OpCounts& f = v.statement->float_ops;
  const double all = f.mad + f.add + f.mul + f.div + f.compare + f.math + f.other;
  return v.body.vectors * std::max(1.0, all > 0 ? all : v.statement->work);
}

double body_loads(const View& v) {
  return v.body.vector_loads + v.body.broadcasts + v.body.gathers;
}

double parts(const View& v) { return std::max(1.0, v.parallel.product); }
double cores(const View& v) { return std::max(1, v.target->code_threads()); }

bool any(const View& v, bool (*test)(const Access& a)) {
  return std::any_of(v.statement->accesses.begin(), v.statement->accesses.end(), test);
}

const Loop* innermost(const View& v) {
  return v.statement->loops.empty() ? nullptr : &v.statement->loops.back();
}

double reduce_points(const View& v) {
  double product = 1;
  for (const Loop& l : v.statement->loops) product *= l.reduce ? l.extent : 1;
  return product;
}

double read_bytes(const View& v) {
  double most = 0;
  for (const Access& a : v.statement->accesses)
    most = a.read && !a.write ? std::max(most, a.element_bytes) : most;
  return most;
}

double written_bytes(const View& v) {
  for (const Access& a : v.statement->accesses) {
    if (a.write) return a.element_bytes;
  }
  return 0;
}

double tensorized(const View& v) {
  for (const schedule::Iter& it : v.statement->stage->iters) {
    if (it.annotation == schedule::Annotation::kTensorize) return 1;
  }
  return 0;
}

constexpr Row kKernelRows[] = {
    {"work", [](const View& v) { return slog(v.statement->work * points(v)); }},
    {"work_share",
     [](const View& v) {
       return static_cast<float>(ratio(v.statement->work * points(v), v.program_work));
     }},
    {"body_points", [](const View& v) { return slog(v.body.points); }},
    {"body_vectors", [](const View& v) { return slog(v.body.vectors); }},
    {"body_instructions", [](const View& v) { return slog(instructions(v)); }},
    {"body_vector_loads", [](const View& v) { return slog(v.body.vector_loads); }},
    {"body_broadcasts", [](const View& v) { return slog(v.body.broadcasts); }},
    {"body_gathers", [](const View& v) { return slog(v.body.gathers); }},
    {"loads_per_instruction", [](const View& v) { return slog(body_loads(v) / instructions(v)); }},
    {"unit_stride_store",
     [](const View& v) { return static_cast<float>(v.body.unit_stride_store); }},
    {"accumulators", [](const View& v) { return slog(v.body.accumulators); }},
    {"accumulator_vectors", [](const View& v) { return slog(v.body.accumulator_vectors); }},
    {"register_use",
     [](const View& v) {
       return slog(v.body.accumulator_vectors / std::max(1, v.target->vector_registers));
     }},
    {"register_overflow",
     [](const View& v) {
       return slog(std::max(0.0, v.body.accumulator_vectors + 2 - v.target->vector_registers));
     }},
    {"vector_fill",
     [](const View& v) {
       const double whole = std::ceil(v.vector.innermost / v.body.lanes) * v.body.lanes;
       return static_cast<float>(ratio(v.vector.innermost, whole));
     }},
    {"vectors_per_loop", [](const View& v) { return slog(v.vector.innermost / v.body.lanes); }},
    {"innermost_extent",
     [](const View& v) { return slog(innermost(v) ? innermost(v)->extent : 0); }},
    {"innermost_reduce", [](const View& v) { return flag(innermost(v) && innermost(v)->reduce); }},
    {"reduce_prod", [](const View& v) { return slog(reduce_points(v)); }},
    {"spatial_prod", [](const View& v) { return slog(points(v) / reduce_points(v)); }},
    {"wasted_share",
     [](const View& v) {
       return static_cast<float>(1 - ratio(v.statement->useful_points, points(v)));
     }},
    {"recompute",
     [](const View& v) { return slog(ratio(v.statement->useful_points, v.statement->domain)); }},
    {"guards", [](const View& v) { return static_cast<float>(v.statement->guards); }},
    {"peels", [](const View& v) { return static_cast<float>(v.statement->peels); }},
    {"pads", [](const View& v) { return static_cast<float>(v.statement->pads); }},
    {"parallel_parts", [](const View& v) { return slog(parts(v)); }},
    {"parts_per_core", [](const View& v) { return slog(parts(v) / cores(v)); }},
    {"imbalance",
     [](const View& v) { return slog(std::ceil(parts(v) / cores(v)) * cores(v) / parts(v) - 1); }},
    {"part_work", [](const View& v) { return slog(v.statement->work * points(v) / parts(v)); }},
    {"attached", [](const View& v) { return flag(v.statement->own > 0); }},
    {"depth_outside", [](const View& v) { return slog(static_cast<double>(v.statement->own)); }},
    {"reads",
     [](const View& v) { return slog(static_cast<double>(v.statement->accesses.size())); }},
    {"packed_reads",
     [](const View& v) {
       return flag(any(v, [](const Access& a) { return a.packed && a.read && !a.write; }));
     }},
    {"packed_result",
     [](const View& v) {
       return flag(any(v, [](const Access& a) { return a.packed && a.write; }));
     }},
    {"reads_temporary",
     [](const View& v) { return flag(any(v, [](const Access& a) { return a.temporary; })); }},
    {"conditional_reads",
     [](const View& v) { return flag(any(v, [](const Access& a) { return a.conditional; })); }},
    {"prefetches",
     [](const View& v) { return static_cast<float>(v.statement->stage->prefetches.size()); }},
    {"prefetch_iterations", [](const View& v) { return slog(v.ahead.iterations); }},
    {"prefetch_bytes", [](const View& v) { return slog(v.ahead.bytes); }},
    {"prefetch_past", [](const View& v) { return slog(v.ahead.past); }},
    {"prefetch_count", [](const View& v) { return slog(v.ahead.count); }},
    {"tensorized", [](const View& v) { return static_cast<float>(tensorized(v)); }},
    {"read_element_bytes", [](const View& v) { return static_cast<float>(read_bytes(v)); }},
    {"written_element_bytes", [](const View& v) { return static_cast<float>(written_bytes(v)); }},
    {"reduce_bytes_per_l1",
     [](const View& v) {
       return slog(ratio(v.reduce_bytes, static_cast<double>(v.target->l1_bytes)));
     }},
    {"reduce_bytes_per_l2",
     [](const View& v) {
       return slog(ratio(v.reduce_bytes, static_cast<double>(v.target->l2_bytes)));
     }},
    {"panel_bytes_per_l1",
     [](const View& v) {
       return slog(ratio(v.inner_reduce_bytes, static_cast<double>(v.target->l1_bytes)));
     }},
    {"l1_traffic", [](const View& v) { return slog(v.traffic[0]); }},
    {"l2_traffic", [](const View& v) { return slog(v.traffic[1]); }},
    {"l3_traffic", [](const View& v) { return slog(v.traffic[2]); }},
    {"work_per_l1_byte",
     [](const View& v) { return slog(ratio(v.statement->work * points(v), v.traffic[0])); }},
    {"work_per_l2_byte",
     [](const View& v) { return slog(ratio(v.statement->work * points(v), v.traffic[1])); }},
    {"work_per_l3_byte",
     [](const View& v) { return slog(ratio(v.statement->work * points(v), v.traffic[2])); }},
    {"l1_work", [](const View& v) { return slog(v.fitting_work[0]); }},
    {"l2_work", [](const View& v) { return slog(v.fitting_work[1]); }},
};

using Read = float (*)(const View& v, std::size_t item);

// A row of a table as a column: `item` is its number in the table.
template <const auto& kTable>
void append_rows(std::vector<StatementColumn>* out) {
  for (std::size_t i = 0; i < std::size(kTable); ++i) {
    out->push_back(
        {kTable[i].name, [](const View& v, std::size_t item) { return kTable[item].read(v); }, i});
  }
}

template <Annotated View::*kLoops>
void append_annotated(const std::string& prefix, std::vector<StatementColumn>* out) {
  const auto add = [&](const std::string& name, Read read, std::size_t item) {
    out->push_back({prefix + name, read, item});
  };
  add(
      "_num", [](const View& v, std::size_t) { return slog((v.*kLoops).count); }, 0);
  add(
      "_prod", [](const View& v, std::size_t) { return slog((v.*kLoops).product); }, 0);
  add(
      "_len", [](const View& v, std::size_t) { return slog((v.*kLoops).innermost); }, 0);
  for (std::size_t p = 0; p < kPositions; ++p) {
    add(
        std::string("_type_") + kPositionNames[p],
        [](const View& v, std::size_t item) { return flag((v.*kLoops).position == item); }, p);
  }
}

void append_slots(std::vector<StatementColumn>* out) {
  constexpr std::size_t kWidth = std::size(kSlotRows);
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    for (std::size_t row = 0; row < kWidth; ++row) {
      const auto read = [](const View& v, std::size_t item) {
        const Slot& s = v.slots[item / kWidth];
        return s.access ? kSlotRows[item % kWidth].read(s) : 0.0f;
      };
      out->push_back({fmt::format("B{}.{}", slot, kSlotRows[row].name), read, slot * kWidth + row});
    }
  }
}

std::vector<StatementColumn> make_columns() {
  std::vector<StatementColumn> out;
  append_rows<kOpRows>(&out);
  append_annotated<&View::vector>("vec", &out);
  append_annotated<&View::unroll>("unroll", &out);
  append_annotated<&View::parallel>("parallel", &out);
  append_rows<kThreadRows>(&out);
  append_slots(&out);
  for (std::size_t n = 0; n < kCurveSamples; ++n) {
    out.push_back({fmt::format("arith_intensity_curve_{}", n),
                   [](const View& v, std::size_t item) { return slog(v.curve[item]); }, n});
  }
  append_rows<kNestRows>(&out);
  append_rows<kKernelRows>(&out);
  for (std::size_t i = 0; i < machine_columns().size(); ++i) {
    const auto read = [](const View& v, std::size_t item) {
      return machine_columns()[item].read(*v.target);
    };
    out.push_back({machine_columns()[i].name, read, i});
  }
  return out;
}

}  // namespace

const std::vector<StatementColumn>& statement_columns() {
  static const std::vector<StatementColumn> columns = make_columns();
  return columns;
}

}  // namespace tessera::feature
