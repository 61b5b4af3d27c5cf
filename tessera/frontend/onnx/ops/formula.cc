#include "tessera/frontend/onnx/ops/formula.h"

#include "tessera/support/float_format.h"

namespace tessera::onnx {

Term Formula::number(DType t, double v) { return value(c_.b.scalar(t, v)); }

Term Formula::constant(HostTensor tensor) { return value(c_.b.constant(std::move(tensor))); }

void Formula::fail(Error error) {
  if (failed_) return;
  failed_ = true;
  error_ = std::move(error);
}

Term Formula::op(std::string_view name, const std::vector<Term>& inputs, graph::Attrs attrs) {
  if (failed_) return value(kNoValue);
  std::vector<ValueId> ids;
  for (const Term& x : inputs) ids.push_back(x.id);
  const auto out = c_.b.add(name, ids, std::move(attrs));
  if (out.ok()) return value(*out);
  fail(out.error());
  return value(kNoValue);
}

Term Formula::cast(Term x, DType to) {
  if (failed_) return value(kNoValue);
  const auto out = c_.b.cast(x.id, to);
  if (out.ok()) return value(*out);
  fail(out.error());
  return value(kNoValue);
}

Term Formula::reshape(Term x, const Shape& shape) {
  if (failed_) return value(kNoValue);
  const auto out = c_.b.reshape(x.id, shape);
  if (out.ok()) return value(*out);
  fail(out.error());
  return value(kNoValue);
}

Term Formula::reduce(const char* kind, Term x, const std::vector<std::int64_t>& axes, bool keep) {
  return op("reduce", {x},
            {{"kind", std::string(kind)}, {"axes", axes}, {"keepdims", std::int64_t{keep}}});
}

Term Formula::along(Term x, std::int64_t axis, std::int64_t rank) {
  Shape dims = shape(x);
  if (axis < rank) dims.resize(dims.size() + static_cast<std::size_t>(rank - axis - 1), 1);
  return reshape(x, dims);
}

DType Formula::dtype(Term x) const { return failed_ ? DType::kF32 : c_.b.dtype(x.id); }

Shape Formula::shape(Term x) const { return failed_ ? Shape{} : c_.b.shape(x.id); }

Result<std::vector<ValueId>> Formula::result(const std::vector<Term>& outputs) const {
  if (failed_) return error_;
  std::vector<ValueId> ids;
  for (const Term& x : outputs) ids.push_back(x.id);
  return ids;
}

Result<std::vector<ValueId>> Formula::result(Term output, DType t) {
  return result({cast(output, t)});
}

Term saturated(Formula& f, Term x, DType to) {
  if (!is_float(to) || size_bytes(to) > 1) return x;
  if (!is_float(f.dtype(x))) x = f.cast(x, DType::kF32);
  const double largest = float_format(to).largest();
  return call("max", call("min", x, largest), -largest);
}

Term call(const char* op, Term a) { return a.formula->op(op, {a}); }

Term call(const char* op, Term a, Term b) { return a.formula->op(op, {a, b}); }

Term call(const char* op, Term a, double b) {
  return call(op, a, a.formula->number(a.formula->dtype(a), b));
}

Term where(Term condition, Term a, Term b) { return a.formula->op("where", {condition, a, b}); }

Term where(Term condition, Term a, double b) {
  return where(condition, a, a.formula->number(a.formula->dtype(a), b));
}

Term where(Term condition, double a, Term b) {
  return where(condition, b.formula->number(b.formula->dtype(b), a), b);
}

}  // namespace tessera::onnx
