// Sequences of tensors and optional values. Both are resolved during import: a sequence is the list
// of its elements, an optional is its value.
#include <algorithm>

#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = Result<std::vector<ValueId>>;
using Elements = std::vector<ValueId>;

Result<Elements> sequence_input(Context& c, std::size_t i) {
  if (!Sequences::is_sequence(c.in(i))) return invalid("input {} is not a sequence", i);
  return c.sequences.elements(c.in(i));
}

Result<void> need_tensor(Context& c, std::size_t i) {
  if (c.has(i) && Sequences::is_sequence(c.in(i))) return invalid("input {} is a sequence", i);
  return {};
}

// Input `i` as a position in [0, limit], counted from `size` when negative; `absent` when omitted.
Result<std::size_t> position(Context& c, std::size_t i, std::size_t size, std::size_t limit,
                             std::size_t absent) {
  if (!c.has(i)) return absent;
  TESSERA_DO(need_tensor(c, i));
  TESSERA_TRY(const HostTensor* value, c.constant(i, "the position"));
  if (value->size() != 1 || !is_int(value->dtype())) return invalid("the position is not a number");
  std::int64_t at = value->get_int(0);
  if (at < 0 && at >= -static_cast<std::int64_t>(size)) at += static_cast<std::int64_t>(size);
  if (at < 0 || at > static_cast<std::int64_t>(limit)) {
    return invalid("position {} in a sequence of {}", value->get_int(0), size);
  }
  return static_cast<std::size_t>(at);
}

Values one_sequence(Context& c, Elements elements) {
  TESSERA_TRY(const ValueId id, c.sequences.add(std::move(elements)));
  return std::vector{id};
}

Values import_empty(Context& c) { return one_sequence(c, {}); }

Values import_construct(Context& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return invalid("input {} is missing", i);
  }
  return one_sequence(c, c.inputs);
}

Values import_insert(Context& c) {
  TESSERA_TRY(Elements elements, sequence_input(c, 0));
  TESSERA_DO(need_tensor(c, 1));
  TESSERA_TRY(const std::size_t at,
              position(c, 2, elements.size(), elements.size(), elements.size()));
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(at), c.in(1));
  return one_sequence(c, std::move(elements));
}

Values import_erase(Context& c) {
  TESSERA_TRY(Elements elements, sequence_input(c, 0));
  if (elements.empty()) return invalid("the sequence is empty");
  const std::size_t last = elements.size() - 1;
  TESSERA_TRY(const std::size_t at, position(c, 1, elements.size(), last, last));
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  return one_sequence(c, std::move(elements));
}

Values import_at(Context& c) {
  TESSERA_TRY(const Elements elements, sequence_input(c, 0));
  if (elements.empty()) return invalid("the sequence is empty");
  TESSERA_TRY(const std::size_t at, position(c, 1, elements.size(), elements.size() - 1, 0));
  return std::vector{elements[at]};
}

Values import_length(Context& c) {
  TESSERA_TRY(const Elements elements, sequence_input(c, 0));
  HostTensor length(DType::kI64, {});
  length.set_int(0, static_cast<std::int64_t>(elements.size()));
  return std::vector{c.b.constant(std::move(length))};
}

Values import_concat(Context& c) {
  TESSERA_TRY(Elements elements, sequence_input(c, 0));
  if (elements.empty()) return invalid("the sequence is empty");
  TESSERA_TRY(std::int64_t axis, c.integer("axis"));
  TESSERA_TRY(const std::int64_t new_axis, c.integer("new_axis", 0));
  const auto rank = static_cast<std::int64_t>(c.b.shape(elements[0]).size());
  TESSERA_TRY(axis, c.axis(axis, rank + (new_axis != 0 ? 1 : 0)));
  for (ValueId& element : elements) {
    if (new_axis == 0) break;
    Shape shape = c.b.shape(element);
    if (axis > static_cast<std::int64_t>(shape.size())) return invalid("elements differ in rank");
    shape.insert(shape.begin() + axis, 1);
    TESSERA_TRY(element, c.b.reshape(element, shape));
  }
  if (elements.size() == 1) return elements;
  TESSERA_TRY(const ValueId joined, c.b.add("concat", elements, {{"axis", axis}}));
  return std::vector{joined};
}

// Sizes of the parts: given one by one, or one size for all with a smaller rest.
Result<std::vector<std::int64_t>> part_sizes(Context& c, std::int64_t length) {
  if (!c.has(1)) return std::vector<std::int64_t>(static_cast<std::size_t>(length), 1);
  TESSERA_TRY(std::vector<std::int64_t> sizes, c.constant_integers(1, "split"));
  if (c.rank(1) == 0) {
    const std::int64_t size = sizes[0];
    if (size < 1) return invalid("parts of size {}", size);
    sizes.clear();
    for (std::int64_t at = 0; at < length; at += size) {
      sizes.push_back(std::min(size, length - at));
    }
  }
  std::int64_t left = length;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > left) return invalid("the parts do not add up to {}", length);
    left -= size;
  }
  if (left != 0) return invalid("the parts do not add up to {}", length);
  return sizes;
}

Values import_split(Context& c) {
  TESSERA_TRY(std::int64_t axis, c.integer("axis", 0));
  TESSERA_TRY(axis, c.axis(axis, c.rank(0)));
  TESSERA_TRY(const std::int64_t keepdims, c.integer("keepdims", 1));
  const Shape shape = c.shape(0);
  const auto at_axis = static_cast<std::size_t>(axis);
  if (shape[at_axis] > 100'000) {
    return make_error(ErrorCode::kUnsupported, "a sequence of {} parts", shape[at_axis]);
  }
  TESSERA_TRY(const std::vector<std::int64_t> sizes, part_sizes(c, shape[at_axis]));
  std::vector<std::int64_t> starts(shape.size(), 0);
  const std::vector<std::int64_t> steps(shape.size(), 1);
  Elements parts;
  for (const std::int64_t size : sizes) {
    Shape part_shape = shape;
    part_shape[at_axis] = size;
    TESSERA_TRY(
        ValueId part,
        c.b.add("slice", {c.in(0)}, {{"starts", starts}, {"steps", steps}, {"sizes", part_shape}}));
    if (keepdims == 0 && !c.has(1)) {
      part_shape.erase(part_shape.begin() + axis);
      TESSERA_TRY(part, c.b.reshape(part, part_shape));
    }
    parts.push_back(part);
    starts[at_axis] += size;
  }
  return one_sequence(c, std::move(parts));
}

// The body runs once per element; inputs after the first may be sequences or tensors.
Values import_map(Context& c) {
  TESSERA_TRY(const Graph* body, c.body("body"));
  TESSERA_TRY(const Elements first, sequence_input(c, 0));
  std::vector<Elements> results(body->outputs.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<ValueId> args{first[i]};
    for (std::size_t k = 1; k < c.inputs.size(); ++k) {
      if (!Sequences::is_sequence(c.in(k))) {
        args.push_back(c.in(k));
        continue;
      }
      const Elements& elements = c.sequences.elements(c.in(k));
      if (elements.size() != first.size()) return invalid("sequences of different length");
      args.push_back(elements[i]);
    }
    TESSERA_TRY(const std::vector<ValueId> outputs, c.bodies.import_body(*body, args));
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (Sequences::is_sequence(outputs[k])) return invalid("a sequence of sequences");
      results[k].push_back(outputs[k]);
    }
  }
  std::vector<ValueId> sequences;
  for (Elements& elements : results) {
    TESSERA_TRY(const ValueId id, c.sequences.add(std::move(elements)));
    sequences.push_back(id);
  }
  return sequences;
}

// Without input: the absent value.
Values import_optional(Context& c) { return std::vector{c.has(0) ? c.in(0) : kNoValue}; }

Values import_get_element(Context& c) { return std::vector{c.in(0)}; }

Values import_has_element(Context& c) {
  HostTensor present(DType::kBool, {});
  present.set_int(0, c.has(0) ? 1 : 0);
  return std::vector{c.b.constant(std::move(present))};
}

}  // namespace

Result<ValueId> Sequences::add(std::vector<ValueId> elements) {
  constexpr std::size_t kMaxTotal = 50'000'000;
  total_ += elements.size() + 1;
  if (total_ > kMaxTotal) {
    return make_error(ErrorCode::kUnsupported, "sequences of more than {} elements", kMaxTotal);
  }
  sequences_.push_back(std::move(elements));
  return kNoValue - static_cast<ValueId>(sequences_.size());
}

const std::vector<ValueId>& Sequences::elements(ValueId sequence) const {
  TESSERA_CHECK(is_sequence(sequence), "{} is not a sequence", sequence);
  return sequences_[static_cast<std::size_t>(kNoValue - 1 - sequence)];
}

std::vector<OnnxOp> sequence_rows() {
  return {{"ConcatFromSequence", 11, 1, 1, import_concat, "", true},
          {"Optional", 15, 0, 1, import_optional, "", true},
          {"OptionalGetElement", 15, 1, 1, import_get_element, "", true},
          {"OptionalHasElement", 15, 0, 1, import_has_element, "", true},
          {"SequenceAt", 11, 2, 2, import_at, "", true},
          {"SequenceConstruct", 11, 1, -1, import_construct},
          {"SequenceEmpty", 11, 0, 0, import_empty},
          {"SequenceErase", 11, 1, 2, import_erase, "", true},
          {"SequenceInsert", 11, 2, 3, import_insert, "", true},
          {"SequenceLength", 11, 1, 1, import_length, "", true},
          {"SequenceMap", 17, 1, -1, import_map, "", true},
          {"SplitToSequence", 11, 1, 2, import_split}};
}

}  // namespace tessera::onnx
