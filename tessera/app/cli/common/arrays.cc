#include "tessera/app/cli/common/arrays.h"

#include <set>

#include <fmt/ranges.h>

#include "tessera/support/npz.h"

namespace tessera::cli {
namespace {

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }

}  // namespace

Result<NamedTensors> read_arrays(const std::string& path,
                                 const std::function<Result<std::vector<std::string>>()>& inputs) {
  if (!is_npy(path)) return read_npz(path);
  TESSERA_TRY(const std::vector<std::string> names, inputs());
  if (names.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} holds one array, the model has {} inputs: {}; give an .npz", path,
                      names.size(), fmt::join(names, " "));
  }
  TESSERA_TRY(HostTensor tensor, read_npy(path));
  NamedTensors out;
  out.push_back({names[0], std::move(tensor)});
  return out;
}

Result<void> write_arrays(const std::string& path, const NamedTensors& all) {
  // A model may list an output more than once; the name says that it is the same.
  std::set<std::string> names;
  NamedTensors outputs;
  for (const NamedTensor& t : all) {
    if (names.insert(t.name).second) outputs.push_back(t);
  }
  if (!is_npy(path)) return write_npz(path, outputs);
  if (outputs.size() == 1) return write_npy(path, outputs[0].tensor);
  return make_error(ErrorCode::kInvalidArgument,
                    "{} holds one array, the model has {} outputs; write an .npz", path,
                    outputs.size());
}

}  // namespace tessera::cli
