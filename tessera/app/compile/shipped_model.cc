#include "tessera/app/compile/shipped_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/learn/lm/guided_reader.h"
#include "tessera/learn/lm/language_model.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLanguage = "language.safetensors";
constexpr const char* kNetworks = "networks";

// What the names of its files begin with; `shared`: of those for every processor.
struct Family {
  std::string own, shared;
};
Family family_of(const target::Target& target) {
  switch (target.arch) {
    case target::Arch::kAArch64:
      return {"aarch64-", "cpu-"};
    case target::Arch::kX86_64:
      return {"x86_64-", "cpu-"};
    case target::Arch::kNone:
      break;
  }
  return {fmt::format("{}-", target::to_text(target.kind)), ""};
}

}  // namespace

std::string shipped_folder(const std::string& bin, const std::string& name,
                           const std::string& marker) {
  std::error_code error;
  const fs::path from(bin);
  for (const fs::path& folder :
       {from / "../../.." / name, from / ".." / "share" / "tessera" / name}) {
    if (fs::exists(folder / marker, error)) return fs::weakly_canonical(folder, error).string();
  }
  return "";
}

namespace {

// The folder of the file that this code was loaded from: the program, or libtessera.so in another.
std::string own_folder() {
  static const char mark = 0;
  Dl_info info;
  if (::dladdr(&mark, &info) == 0 || !info.dli_fname) return "";
  std::error_code error;
  return fs::weakly_canonical(info.dli_fname, error).parent_path().string();
}

}  // namespace

std::string shipped_folder(const std::string& name, const std::string& marker) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const std::string& bin : {program.parent_path().string(), own_folder()}) {
    const std::string found = bin.empty() ? "" : shipped_folder(bin, name, marker);
    if (!found.empty()) return found;
  }
  const char* given = std::getenv("TESSERA_SHARE");
  for (const fs::path& share :
       {fs::path(given ? given : ""), fs::path(TESSERA_SHARE_FOLDER),
        fs::path("/usr/local/share/tessera"), fs::path("/usr/share/tessera")}) {
    if (!share.empty() && fs::exists(share / name / marker, error)) return (share / name).string();
  }
  return "";
}

std::string weights_folder() { return shipped_folder("weights", "README.md"); }

std::vector<std::string> shipped_models(const std::string& folder, const target::Target& target) {
  const std::string arch = family_of(target).own;
  std::vector<std::string> out;
  std::error_code error;
  for (const fs::directory_entry& f : fs::directory_iterator(folder, error)) {
    const bool named = f.path().filename().string().rfind(arch, 0) == 0;
    const bool judges = f.path().filename() != arch + kLanguage &&
                        f.path().filename().string().rfind(arch + kNetworks, 0) != 0;
    if (named && judges && f.path().extension() == ".safetensors") out.push_back(f.path().string());
  }
  const std::string preferred = arch + "default";
  std::sort(out.begin(), out.end(), [&](const std::string& a, const std::string& b) {
    const bool a_first = fs::path(a).stem() == preferred, b_first = fs::path(b).stem() == preferred;
    return a_first != b_first ? a_first : a < b;
  });
  return out;
}

std::string shipped_language(const std::string& folder, const target::Target& target) {
  std::error_code error;
  if (folder.empty()) return "";
  const auto [own, shared] = family_of(target);
  for (const std::string& family : {own, shared}) {
    const fs::path path = fs::path(folder) / (family + kLanguage);
    if (!family.empty() && fs::exists(path, error)) return path.string();
  }
  return "";
}

bool ships_language() {
  std::error_code error;
  const std::string folder = weights_folder();
  if (folder.empty()) return false;
  for (const fs::directory_entry& f : fs::directory_iterator(folder, error)) {
    if (f.path().filename().string().ends_with(std::string("-") + kLanguage)) return true;
  }
  return false;
}

Result<std::string> language_path(const std::string& text, const target::Target& target) {
  if (text != kShipped) return text;
  std::string path = shipped_language(weights_folder(), target);
  if (!path.empty()) return path;
  return make_error(ErrorCode::kUnavailable, "no language model comes with this Tessera for {}",
                    target.name);
}

Result<std::shared_ptr<lm::Reader>> open_language(const std::string& path, double guidance,
                                                  int threads) {
  if (threads == 0) threads = target::default_threads();
  TESSERA_TRY(
      std::unique_ptr<lm::LanguageModel> wished,
      lm::LanguageModel::load(path, {.threads = threads, .cache = kernel::user_kernel_cache()}));
  if (guidance == 0) return std::shared_ptr<lm::Reader>(std::move(wished));
  std::unique_ptr<lm::Reader> unknown = wished->twin();
  return std::shared_ptr<lm::Reader>(
      new lm::GuidedReader(std::move(wished), std::move(unknown), guidance));
}

std::vector<std::string> default_models(const std::vector<std::string>& shipped) {
  constexpr std::string_view kNumbered = "-default-";
  std::vector<std::string> numbered;
  for (const std::string& path : shipped) {
    const std::string stem = fs::path(path).stem().string();
    const std::size_t at = stem.find(kNumbered);
    if (at == std::string::npos) continue;
    const std::string number = stem.substr(at + kNumbered.size());
    const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
    if (digits && !number.empty()) numbered.push_back(path);
  }
  if (numbered.size() > 1) return numbered;
  return {shipped.begin(), shipped.begin() + (shipped.empty() ? 0 : 1)};
}

std::vector<std::string> files_in_list(const std::string& text) {
  std::error_code error;
  if (fs::exists(text, error)) return {text};
  return split_commas(text);
}

std::vector<std::string> model_paths(const std::string& text, const target::Target& target) {
  if (text == kNoModel) return {};
  if (text != kShipped) return files_in_list(text);
  const std::string folder = weights_folder();
  if (folder.empty()) return {};
  return default_models(shipped_models(folder, target));
}

ZeroTrialModels zero_trial_models(const std::string& text, const std::string& folder,
                                  const target::Target& target) {
  ZeroTrialModels out;
  std::error_code error;
  if (text == kShipped && !folder.empty() && target.code_threads() == 1) {
    for (const fs::directory_entry& f : fs::directory_iterator(folder, error)) {
      const bool named =
          f.path().filename().string().rfind(family_of(target).own + kNetworks, 0) == 0;
      if (named && f.path().extension() == ".safetensors") out.paths.push_back(f.path().string());
    }
  }
  std::sort(out.paths.begin(), out.paths.end());
  out.in_networks = !out.paths.empty();
  if (!out.in_networks) out.paths = model_paths(text, target);
  return out;
}

}  // namespace tessera::app
