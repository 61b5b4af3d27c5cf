// Between DLPack's tensors and HostTensor, any strides, every field checked.
#pragma once

#include <string>

#include "tessera/capi/include/tessera/tessera.h"
#include "tessera/support/host_tensor.h"

namespace tessera::capi {

// DLPack's code for the type; lanes is 1.
tsr_dl_type dl_type(DType dtype);

// `name` is for messages. kInvalidArgument: another device, type, rank or shape, or no data.
Result<void> check_tensor(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape,
                          const std::string& name);

// Both need a checked tensor.
HostTensor read_tensor(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape);
void write_tensor(const HostTensor& from, const tsr_dl_tensor& tensor);

// Owns a copy until its deleter is called.
tsr_dl_managed_tensor* make_managed(const HostTensor& tensor);

}  // namespace tessera::capi
