// Between DLPack's tensors and HostTensor, any strides, every field checked.
#pragma once

#include <string>

#include "tessera/app/capi/include/tessera/tessera.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/host_tensor.h"

namespace tessera::capi {

// DLPack's code for the type; lanes is 1.
tsr_dl_type dl_type(DType dtype);

bool on_host(const tsr_dl_tensor& tensor);
bool is_dense(const tsr_dl_tensor& tensor, const Shape& shape);  // row-major without gaps
std::byte* data_of(const tsr_dl_tensor& tensor);

// `name` is for messages, `device` where the model computes: memory of the host is always taken.
// kInvalidArgument: another device, type, rank or shape, gaps on a device, or no data.
Result<void> check_tensor(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape,
                          target::Kind device, const std::string& name);

// Whether it is all of that, without a word why not.
bool fits(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape, target::Kind device);

// All need a checked tensor of the host. Elements to row-major memory without gaps, and back.
void gather(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape, void* to);
void scatter(const void* from, DType dtype, const Shape& shape, const tsr_dl_tensor& tensor);
HostTensor read_tensor(const tsr_dl_tensor& tensor, DType dtype, const Shape& shape);

// Owns the tensor until its deleter is called.
tsr_dl_managed_tensor* make_managed(HostTensor tensor);

}  // namespace tessera::capi
