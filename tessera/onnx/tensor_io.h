// TensorProto and the names of element types. Private to parse.cc and serialize.cc: protobuf types
// do not leave this folder.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tessera/onnx/model.h"
#include "tessera/support/mapped_file.h"
#include "tessera_onnx.pb.h"

namespace tessera::onnx {

// "f32" for 1 and so on: to_text(DType), or a word of ONNX's other types; "type 99" when unknown.
std::string element_type_name(int onnx_type);
int element_type_number(DType dtype);
// 0 when no element type has that name.
int element_type_number(const std::string& name);

// The files beside a model that hold its large tensors, each mapped once.
class ExternalFiles {
 public:
  // `folder` "" refuses external data.
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  // The bytes that `tensor` refers to; valid while this object lives.
  Result<std::string_view> bytes(const tessera_onnx::TensorProto& tensor);
  std::vector<std::string> names() const;  // of those that were read, relative to the folder

 private:
  std::string folder_;
  std::map<std::string, MappedFile> files_;  // by location
};

using AnyTensor = std::variant<HostTensor, ForeignTensor>;

// Every length is checked against the dimensions before memory is taken.
Result<AnyTensor> read_tensor(const tessera_onnx::TensorProto& tensor, ExternalFiles& files);
// As a dense tensor.
Result<AnyTensor> read_sparse(const tessera_onnx::SparseTensorProto& tensor, ExternalFiles& files);

void write_tensor(const HostTensor& tensor, const std::string& name, tessera_onnx::TensorProto& to);

}  // namespace tessera::onnx
