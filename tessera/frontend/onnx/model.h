// An ONNX model as plain data: what the file says, before any meaning is given to it. No protobuf
// type crosses this header.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::onnx {

struct Graph;

// A tensor whose element type has no DType (string, complex64, float8e4m3fnuz, int4, ...). Kept so
// that only a node that needs it is refused.
struct ForeignTensor {
  std::string type;
  // Of narrow numbers (narrow_types.h): the elements as i8, u8 or f32.
  std::optional<HostTensor> widened = {};
};

using AttributeValue =
    std::variant<std::int64_t, float, std::string, HostTensor, ForeignTensor,
                 std::shared_ptr<const Graph>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<std::string>, std::vector<HostTensor>>;

struct Attribute {
  std::string name;
  AttributeValue value;
  std::string ref;  // inside a function body: the attribute of the caller that gives the value
};

struct Node {
  std::string name;                          // may be empty or repeated
  std::string op_type;                       // "Conv"
  std::string domain;                        // "" is the ONNX domain ("ai.onnx" is read as "")
  std::string overload;                      // of a model-local function (IR version >= 10)
  std::vector<std::string> inputs, outputs;  // "" where omitted
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;
};

// One dimension of a declared shape: a size, a name ("batch", "past_length + 1"), or neither.
struct Dim {
  std::int64_t size = -1;  // -1: symbolic or unknown
  std::string symbol;
};

struct ValueInfo {
  std::string name;
  std::string type;  // "f32" and so on as to_text(DType); other words ("string", "sequence",
                     // "complex64") have no DType
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct Initializer {
  std::string name;
  std::variant<HostTensor, ForeignTensor> value;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // in file order; a valid file is topologically sorted
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs;  // may list initializers too (IR version < 4)
  std::vector<ValueInfo> outputs;
};

// A model-local function (IR version >= 8).
struct Function {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  // formal names without default
  std::vector<Attribute> default_attributes;
  std::vector<Node> nodes;
  std::map<std::string, std::int64_t> opsets;  // by domain
};

struct Model {
  std::int64_t ir_version = 8;
  std::map<std::string, std::int64_t> opsets;  // by domain; "" is ONNX
  std::string producer;
  Graph graph;
  std::vector<Function> functions;
};

// Reads a model and the external data beside it. kIo: the file cannot be read; kInvalidArgument:
// not an ONNX model, with the reason (truncated, tensor of the wrong length, missing external
// data, path that leaves the folder, nesting too deep, ...).
Result<Model> load_model(const std::string& path);
// From memory; external data is looked up in `folder` ("" refuses it).
Result<Model> parse_model(std::string_view bytes, const std::string& folder);
struct SaveOptions {
  // Tensors of 1 KiB and more go to `path`.data when the file would be larger than this many bytes;
  // the format's limit is 2 GB.
  std::int64_t external_above = 1'500'000'000;
};
// Writes a model that other engines read; a new or regular file is written beside the path and
// renamed, anything else (a pipe, a device) in place. kUnsupported when the model holds a
// ForeignTensor other than integers of a narrow type with their values, or operators of our own.
Result<void> save_model(const Model& model, const std::string& path,
                        const SaveOptions& options = {});
// kInvalidArgument when the bytes would exceed 2 GB.
Result<std::string> serialize_model(const Model& model);

// One TensorProto, as the files input_0.pb of the ONNX backend tests hold.
Result<HostTensor> parse_tensor(std::string_view bytes);
Result<std::string> serialize_tensor(const HostTensor& tensor, const std::string& name);

}  // namespace tessera::onnx
