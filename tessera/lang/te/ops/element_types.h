// Which types an operation reads, accumulates in and writes for a given dtype=.
#pragma once

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {

struct ElementTypes {
  DType in;
  DType acc;  // type of products, sums and intrinsic functions
  DType out;
};

// f32, f64: themselves. f16, bf16: computed in f32, rounded once to the output.
// kInvalidArgument for every other type.
Result<ElementTypes> float_types(const OpSpec& spec);
// As float_types, but i8 and u8 have products and sums in i32, 8-bit floats in f32, which is also
// the output.
Result<ElementTypes> mac_types(const OpSpec& spec);

// The same rules for operators whose operands have types of their own: i8 and u8 in any mix give
// i32, 8-bit floats f32; every other pair must be equal. kInvalidArgument for bool and for other
// mixtures.
Result<ElementTypes> product_types(DType a, DType b);

// v converted to t; v itself when it has that type.
ir::Expr to_type(DType t, const ir::Expr& v);

// The output of an operation whose accumulation is `acc`: `acc` itself, or a stage `name` that
// casts it.
ir::Buffer cast_output(DagBuilder& b, const ir::Buffer& acc, DType out, const NamedAxes& axes,
                       const std::string& name = "out");

}  // namespace tessera::te
