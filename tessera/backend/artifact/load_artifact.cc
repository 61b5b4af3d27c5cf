#include "tessera/backend/artifact/load_artifact.h"

#include <filesystem>
#include <optional>

#include <dlfcn.h>

#include "tessera/backend/artifact/elf.h"
#include "tessera/backend/artifact/opened_artifact.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/target.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;

struct Library {
  explicit Library(void* h) : handle(h) {}
  ~Library() {
    if (handle) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* handle;
};

std::optional<std::string> missing_feature(const std::vector<std::string>& features,
                                           const target::Target& host) {
  for (const std::string& feature : features) {
    if (!target::has_feature(host.features, feature)) return feature;
  }
  return std::nullopt;
}

// Opens that variant, or that which fits.
tsr_status open_context(void* library, const Metadata& m, int variant, const tsr_model_api* api,
                        const tsr_open_options& options, tsr_context** context) {
  if (variant == 0) return api->open(&options, context);
  using Open = tsr_status (*)(std::int32_t, const tsr_open_options*, tsr_context**);
  const auto open = reinterpret_cast<Open>(dlsym(library, (m.name + "_open_variant").c_str()));
  if (open) return open(variant, &options, context);
  tsr_status status{.code = TSR_UNSUPPORTED, .message = "the artifact has one program only"};
  return status;
}

Result<void> check_machine(const Metadata& m) {
  if (m.abi != TSR_ARTIFACT_ABI) {
    return make_error(ErrorCode::kUnsupported,
                      "artifact {} has interface version {}, this Tessera reads version {}", m.name,
                      m.abi, TSR_ARTIFACT_ABI);
  }
  const target::Target& host = target::host();
  if (m.triple != host.triple) {
    return make_error(ErrorCode::kUnsupported, "artifact {} is for {}, this machine is {}", m.name,
                      m.triple, host.triple);
  }
  for (const VariantDescription& v : m.variants) {
    if (!missing_feature(v.features, host)) return {};
  }
  const std::optional<std::string> missing = missing_feature(m.features, host);
  if (!missing) return {};
  return make_error(ErrorCode::kUnsupported,
                    "this machine lacks {}, which {}artifact {} was compiled for", *missing,
                    m.variants.empty() ? "" : "the last variant of ", m.name);
}

}  // namespace

Result<void> to_result(const tsr_status& status) {
  if (status.code == TSR_OK) return {};
  const auto code = [&] {
    switch (status.code) {
      case TSR_UNSUPPORTED:
        return ErrorCode::kUnsupported;
      case TSR_IO:
        return ErrorCode::kIo;
      case TSR_UNAVAILABLE:
        return ErrorCode::kUnavailable;
      case TSR_BUILD_FAILED:
        return ErrorCode::kBuildFailed;
      case TSR_RUN_FAILED:
      case TSR_OUT_OF_MEMORY:
        return ErrorCode::kRunFailed;
      default:
        return ErrorCode::kInvalidArgument;
    }
  };
  return Error{code(), status.message};
}

Result<std::vector<HostTensor>> LoadedArtifact::run(const std::vector<HostTensor>& inputs) {
  if (inputs.size() != metadata_.inputs.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} inputs given, the model has {}",
                      inputs.size(), metadata_.inputs.size());
  }
  std::vector<const void*> from;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorDescription& want = metadata_.inputs[i];
    if (inputs[i].dtype() != want.dtype || inputs[i].shape() != want.shape) {
      return make_error(ErrorCode::kInvalidArgument, "input '{}' must be {} {}, not {} {}",
                        want.name, to_text(want.dtype), to_text(want.shape),
                        to_text(inputs[i].dtype()), to_text(inputs[i].shape()));
    }
    from.push_back(inputs[i].data());
  }
  std::vector<HostTensor> outputs;
  std::vector<void*> to;
  for (const TensorDescription& t : metadata_.outputs) {
    outputs.emplace_back(t.dtype, t.shape);
    to.push_back(outputs.back().data());
  }
  TESSERA_DO(run_in_place(from.data(), to.data()));
  return outputs;
}

Result<std::unique_ptr<LoadedArtifact>> load_artifact(const std::string& path,
                                                      const LoadOptions& options) {
  TESSERA_TRY(Metadata metadata, read_metadata(path));
  TESSERA_DO(check_machine(metadata));
  if (!metadata.library.ends_with(".so")) {
    return make_error(ErrorCode::kUnsupported,
                      "{} is to be linked into a program: only shared libraries can be loaded",
                      metadata.library);
  }
  std::error_code error;
  const fs::path folder = fs::absolute(
      fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path(), error);
  const fs::path file =
      fs::path(path).extension() == ".so" ? fs::absolute(path, error) : folder / metadata.library;
  TESSERA_DO(check_whole(file.string()));
  auto library = std::make_unique<Library>(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library->handle) return make_error(ErrorCode::kIo, "cannot load {}", dlerror());
  using GetApi = const tsr_model_api* (*)();
  const auto get_api =
      reinterpret_cast<GetApi>(dlsym(library->handle, (metadata.name + "_api").c_str()));
  const tsr_model_api* api = get_api ? get_api() : nullptr;
  if (!api || api->abi != TSR_ARTIFACT_ABI || metadata.plan_digest != api->info->plan_digest) {
    return make_error(ErrorCode::kInvalidArgument, "{} does not fit its metadata", file.string());
  }
  const std::string weights = (folder / metadata.weights_file).string();
  tsr_open_options open{};
  open.threads = options.threads;
  open.host = options.host;
  open.device = options.device;
  open.queue = options.queue;
  open.trust_weights = options.trust_weights ? 1 : 0;
  if (!metadata.weights_file.empty()) open.weights_path = weights.c_str();
  tsr_context* context = nullptr;
  TESSERA_DO(
      to_result(open_context(library->handle, metadata, options.variant, api, open, &context)));
  return opened(std::move(metadata), std::move(library), api, context);
}

}  // namespace tessera::artifact
