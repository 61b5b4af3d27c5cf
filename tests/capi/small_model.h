// A model for the tests of the interface, as the bytes of an ONNX file.
#pragma once

#include <string>

namespace tessera::capi {

// y = x * w with x f32[rows, 3], w = {{1,2},{3,4},{5,6}}; `op` other than MatMul gives a broken
// model; `listed`: how many times y is among the outputs.
std::string small_model(const std::string& op = "MatMul", int listed = 1);

// h = x * w as above; found = i64[2, n], where h is above zero, and scores = f32[n], what it is
// there: how many there are follows from data.
std::string detector_model();

}  // namespace tessera::capi
