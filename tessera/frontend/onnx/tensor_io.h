// TensorProto and the names of element types. Private to parse.cc and serialize.cc: protobuf types
// do not leave this folder.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tessera/frontend/onnx/model_files.h"
#include "tessera/support/mapped_file.h"
#include "tessera_onnx.pb.h"

namespace tessera::onnx {

// "f32" for 1 and so on: to_text(DType), or a word of ONNX's other types; "type 99" when unknown.
std::string element_type_name(int onnx_type);
int element_type_number(DType dtype);
// 0 when no element type has that name.
int element_type_number(const std::string& name);

// Bytes of a tensor where they lie. With an owner they may stay there.
struct TensorBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

// Where the large tensors of a model lie: in its own bytes and in the files beside it, each of
// which is mapped once.
class TensorFiles {
 public:
  // `folder` "" refuses external data.
  explicit TensorFiles(std::string folder) : folder_(std::move(folder)) {}
  // What raw_place is a part of (payloads.h). It has no owner where it is not a mapped file.
  void set_model(TensorBytes model) { model_ = std::move(model); }
  // The bytes that `tensor` refers to or holds; valid while this object, the tensor and the model
  // live.
  Result<TensorBytes> bytes(const tessera_onnx::TensorProto& tensor);
  std::vector<std::string> names() const;  // of those that were read, relative to the folder

 private:
  Result<TensorBytes> external(const tessera_onnx::TensorProto& tensor);

  std::string folder_;
  TensorBytes model_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
};

using AnyTensor = std::variant<HostTensor, ForeignTensor>;

// Whether the values of a tensor will be read. Of an outline, those of more than kOutlineBytes are
// not: they lie anywhere in the file, or, of narrow types, are left out.
enum class Reading : std::uint8_t { kValues, kOutline };

// Large tensors that lie well in a mapped file stay there, others are copied. Every length is
// checked against the dimensions before memory is taken.
Result<AnyTensor> read_tensor(const tessera_onnx::TensorProto& tensor, TensorFiles& files,
                              Reading reading = Reading::kValues);
// As a dense tensor.
Result<AnyTensor> read_sparse(const tessera_onnx::SparseTensorProto& tensor, TensorFiles& files);

void write_tensor(const HostTensor& tensor, const std::string& name, tessera_onnx::TensorProto& to);

}  // namespace tessera::onnx
