// NumPy's files: .npy holds one array, .npz a zip archive of them.
#pragma once

#include <string>
#include <string_view>

#include "tessera/support/named_tensor.h"

namespace tessera {

// Format versions 1 to 3, both byte orders, C and Fortran order. NumPy has no bf16: two opaque
// bytes
// ("V2", as ml_dtypes stores it) are read as bf16 and written for it. kUnsupported: other types
// (complex, strings, objects).
Result<HostTensor> parse_npy(std::string_view bytes);
std::string npy_bytes(const HostTensor& tensor);

// Names are those of the entries without ".npy", in the order of the archive.
Result<NamedTensors> parse_npz(std::string_view bytes);

// An array where it lies in the bytes of a file.
struct NpyView {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;  // at a multiple of the element's size
};

// The arrays of an archive without copying them: of mapped files. Checksums are not compared.
// kUnsupported: compressed, in Fortran order, of the other byte order, or not aligned; write_npz
// writes none of these.
Result<std::vector<NpyView>> view_npz(std::string_view bytes);

// Errors name the file and the entry.
Result<NamedTensors> read_npz(const std::string& path);
Result<HostTensor> read_npy(const std::string& path);
Result<void> write_npz(const std::string& path, const NamedTensors& tensors, bool compress = false);
Result<void> write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace tessera
