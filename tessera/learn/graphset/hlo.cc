#include "tessera/learn/graphset/hlo.h"

#include "tessera/learn/graphset/wire.h"

namespace tessera::graphset {
namespace {

// Calls `f` for each field; it returns a Result<void>.
template <class F>
Result<void> for_fields(std::string_view message, F&& f) {
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(message));
  for (const WireField& field : fields) TESSERA_DO(f(field));
  return {};
}

// Numbers of a message that is repeated once a dimension: columns[i] takes field i + 1, 0 where it
// is absent.
Result<void> append_dimension(std::string_view message, const std::vector<Integers*>& columns) {
  for (Integers* column : columns) column->push_back(0);
  return for_fields(message, [&](const WireField& f) -> Result<void> {
    if (f.id <= columns.size() && !f.is_bytes) columns[f.id - 1]->back() = f.integer();
    return {};
  });
}

Result<void> append_dimensions(std::string_view message, const std::vector<Integers*>& columns) {
  return for_fields(message, [&](const WireField& f) -> Result<void> {
    return f.id == 1 ? append_dimension(f.bytes, columns) : Result<void>();
  });
}

Result<void> read_shape(std::string_view message, HloInstruction* out) {
  return for_fields(message, [&](const WireField& f) -> Result<void> {
    if (f.id == 2) out->element_type = f.integer();
    if (f.id == 3) return append_integers(f, &out->shape);
    if (f.id == 4) ++out->tuple_elements;
    if (f.id != 5) return {};
    return for_fields(f.bytes, [&](const WireField& l) -> Result<void> {
      return l.id == 1 ? append_integers(l, &out->minor_to_major) : Result<void>();
    });
  });
}

Result<void> read_convolution(std::string_view message, HloConvolution* out) {
  return for_fields(message, [&](const WireField& f) -> Result<void> {
    switch (f.id) {
      case 3:
        out->kernel_input = f.integer();
        return {};
      case 4:
        out->kernel_output = f.integer();
        return {};
      case 6:
        return append_integers(f, &out->kernel_spatial);
      case 7:
        out->input_batch = f.integer();
        return {};
      case 8:
        out->input_feature = f.integer();
        return {};
      case 9:
        out->output_batch = f.integer();
        return {};
      case 10:
        out->output_feature = f.integer();
        return {};
      case 11:
        return append_integers(f, &out->input_spatial);
      default:
        return {};
    }
  });
}

Result<void> read_field(const WireField& f, HloInstruction* out) {
  HloWindow& w = out->window;
  Integers interior;  // read and not used
  switch (f.id) {
    case 2:
      out->opcode = f.bytes;
      return {};
    case 3:
      return read_shape(f.bytes, out);
    case 9:
      out->parameter_number = f.integer();
      return {};
    case 14:
      return append_integers(f, &out->dimensions);
    case 15:
      return append_dimensions(f.bytes, {&w.size, &w.stride, &w.pad_low, &w.pad_high, &w.dilation,
                                         &w.base_dilation, &w.reversal});
    case 16:
      return read_convolution(f.bytes, &out->convolution);
    case 17:
      return append_dimension(f.bytes, {&out->slice_start, &out->slice_limit, &out->slice_stride});
    case 20:
      return append_integers(f, &out->dynamic_slice);
    case 21:
      return append_dimensions(f.bytes, {&out->pad_low, &out->pad_high, &interior});
    case 35:
      out->id = f.integer();
      return {};
    case 36:
      return append_integers(f, &out->operands);
    case 38:
      return append_integers(f, &out->called);
    case 50:
      out->feature_groups = f.integer();
      return {};
    case 58:
      out->batch_groups = f.integer();
      return {};
    case 60:
      out->is_stable = f.integer();
      return {};
    default:
      return {};
  }
}

Result<HloComputation> parse_computation(std::string_view bytes) {
  HloComputation out;
  TESSERA_DO(for_fields(bytes, [&](const WireField& f) -> Result<void> {
    if (f.id == 1) out.name = f.bytes;
    if (f.id == 5) out.id = f.integer();
    if (f.id == 6) out.root = f.integer();
    if (f.id != 2) return {};
    HloInstruction& instruction = out.instructions.emplace_back();
    return for_fields(f.bytes, [&](const WireField& i) { return read_field(i, &instruction); });
  }));
  return out;
}

}  // namespace

Result<HloModule> parse_hlo(std::string_view bytes) {
  HloModule module;
  TESSERA_DO(for_fields(bytes, [&](const WireField& f) -> Result<void> {
    if (f.id == 1) module.name = f.bytes;
    if (f.id != 3) return {};
    TESSERA_TRY(module.computations.emplace_back(), parse_computation(f.bytes));
    return {};
  }));
  return module;
}

}  // namespace tessera::graphset
