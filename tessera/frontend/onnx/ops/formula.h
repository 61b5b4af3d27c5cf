// Writes the formula of a composite operator as arithmetic on terms; each operation adds one node.
// The first failure sticks: later operations do nothing, and result() returns it.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

class Formula;

// A value of the graph under construction.
struct Term {
  Formula* formula = nullptr;
  ValueId id = kNoValue;  // also after a failure
};

class Formula {
 public:
  explicit Formula(Context& c) : c_(c) {}
  Formula(const Formula&) = delete;  // terms point to it
  Formula& operator=(const Formula&) = delete;

  Term in(std::size_t i) { return value(c_.in(i)); }
  // Input `i` in the type in which a chain of operations should be computed: f32 for f16 and bf16.
  Term wide(std::size_t i) { return widen(in(i)); }
  Term widen(Term x) { return cast(x, compute_type(dtype(x))); }
  Term value(ValueId id) { return {this, id}; }
  Term number(DType t, double v);
  Term constant(HostTensor tensor);

  Term op(std::string_view name, const std::vector<Term>& inputs, graph::Attrs attrs = {});
  Term cast(Term x, DType to);
  Term reshape(Term x, const Shape& shape);
  // kind: sum, mean, max, min or prod.
  Term reduce(const char* kind, Term x, const std::vector<std::int64_t>& axes, bool keep = true);
  // Vector x as a tensor that broadcasts along `axis` of a tensor of rank `rank`.
  Term along(Term x, std::int64_t axis, std::int64_t rank);

  // Meaningless after a failure: f32 and no dimension.
  DType dtype(Term x) const;
  Shape shape(Term x) const;

  void fail(Error error);
  bool failed() const { return failed_; }
  const Error& error() const { return error_; }
  Result<std::vector<ValueId>> result(const std::vector<Term>& outputs) const;
  // The one output, cast to type `t`.
  Result<std::vector<ValueId>> result(Term output, DType t);

 private:
  Context& c_;
  bool failed_ = false;
  Error error_;
};

// x within what a float type of 8 bits holds, as ONNX casts to one; x itself for other types.
Term saturated(Formula& f, Term x, DType to);

// Numbers take the type of the term beside them.
Term call(const char* op, Term a);
Term call(const char* op, Term a, Term b);
Term call(const char* op, Term a, double b);
Term where(Term condition, Term a, Term b);
Term where(Term condition, Term a, double b);
Term where(Term condition, double a, Term b);

inline Term operator+(Term a, Term b) { return call("add", a, b); }
inline Term operator-(Term a, Term b) { return call("sub", a, b); }
inline Term operator*(Term a, Term b) { return call("mul", a, b); }
inline Term operator/(Term a, Term b) { return call("div", a, b); }
inline Term operator+(Term a, double b) { return call("add", a, b); }
inline Term operator-(Term a, double b) { return call("sub", a, b); }
inline Term operator*(Term a, double b) { return call("mul", a, b); }
inline Term operator/(Term a, double b) { return call("div", a, b); }
inline Term operator-(Term a) { return call("neg", a); }

}  // namespace tessera::onnx
