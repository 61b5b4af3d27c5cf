// Weights inside the file of a model: protobuf would copy them, so they are left where they lie.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::onnx {

// Tensors of fewer bytes are cheaper to copy than to refer to.
inline constexpr std::size_t kLeastPayload = 4096;

// A serialised ModelProto in which every raw_data of kLeastPayload bytes or more is replaced by
// raw_place, its position in `model`. Nothing when there is no such tensor, and when the bytes are
// not in the usual form (damaged, fields repeated that occur once): protobuf then reads them as
// they are.
std::optional<std::string> without_payloads(std::string_view model);

}  // namespace tessera::onnx
