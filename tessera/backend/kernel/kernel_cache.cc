#include "tessera/backend/kernel/kernel_cache.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <elf.h>
#include <link.h>

#include "tessera/backend/kernel/binary_bytes.h"

namespace tessera::kernel {
namespace {

constexpr std::int64_t kUsualLimit = std::int64_t{4} << 30;

// The id that the linker gave to the program or library which holds this code.
struct BuildId {
  const void* here;
  std::string id;
};

int find_build_id(dl_phdr_info* info, std::size_t, void* data) {
  auto* wanted = static_cast<BuildId*>(data);
  const auto here = reinterpret_cast<std::uintptr_t>(wanted->here);
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + p.p_vaddr;
    inside = inside || (p.p_type == PT_LOAD && here >= start && here - start < p.p_memsz);
  }
  if (!inside) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr);
    const char* end = at + p.p_memsz;
    while (static_cast<std::size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const std::size_t name = (note.n_namesz + 3u) & ~3u, bytes = (note.n_descsz + 3u) & ~3u;
      at += sizeof(note);
      if (static_cast<std::size_t>(end - at) < name + bytes) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at, "GNU", 4) == 0) {
        for (std::size_t k = 0; k < note.n_descsz; ++k) {
          wanted->id += fmt::format("{:02x}", static_cast<unsigned char>(at[name + k]));
        }
        return 1;
      }
      at += name + bytes;
    }
  }
  return 1;
}

const std::string& build_id() {
  static const std::string id = [] {
    BuildId wanted{reinterpret_cast<const void*>(&find_build_id), ""};
    dl_iterate_phdr(find_build_id, &wanted);
    return wanted.id;
  }();
  return id;
}

}  // namespace

std::string KernelCache::key(const target::Target& target, const codegen::CodegenOptions& options,
                             const std::string& definition, const std::string& schedule) {
  if (build_id().empty()) return "";
  return fmt::format("build {} {}\ntarget {}\nlevel {}\nschedule {}\n{}\n{}", build_id(),
                     codegen::kBackEndSources, target::to_text(target), options.opt_level,
                     schedule.empty() ? "default" : "given", schedule, definition);
}

std::optional<Kernel> KernelCache::find(const std::string& key,
                                        const target::Target& target) const {
  if (key.empty()) return std::nullopt;
  const std::optional<std::string> bytes = disk_.find(key);
  if (!bytes) return std::nullopt;
  ByteReader reader(*bytes);
  Kernel out;
  read_binary(reader, target, &out.binary);
  out.digest = static_cast<std::uint64_t>(reader.number());
  const std::int64_t count = reader.number();
  for (std::int64_t i = 0; i < count && reader.ok(); ++i) {
    const std::string_view text = reader.text();
    if (text.empty()) {
      out.param_layouts.emplace_back();
      continue;
    }
    auto layout = schedule::layout_from_text(text);
    if (!layout) return std::nullopt;
    out.param_layouts.push_back(std::move(*layout));
  }
  if (!reader.finished()) return std::nullopt;
  return out;
}

void KernelCache::store(const std::string& key, const Kernel& kernel) const {
  if (key.empty()) return;
  ByteWriter writer;
  write_binary(writer, kernel.binary);
  writer.number(static_cast<std::int64_t>(kernel.digest));
  writer.number(static_cast<std::int64_t>(kernel.param_layouts.size()));
  for (const schedule::Layout& layout : kernel.param_layouts) {
    writer.text(layout.empty() ? "" : schedule::to_text(layout));
  }
  (void)disk_.store(key, writer.bytes());
}

std::optional<DiskSpace> disk_space(const std::string& folder) {
  std::filesystem::path place = folder;
  std::error_code error;
  while (!std::filesystem::exists(place, error) && place.has_relative_path())
    place = place.parent_path();
  const std::filesystem::space_info space = std::filesystem::space(place, error);
  if (error) return std::nullopt;
  const auto bytes = [](std::uintmax_t n) {
    return static_cast<std::int64_t>(std::min<std::uintmax_t>(n, INT64_MAX));
  };
  return DiskSpace{bytes(space.capacity), bytes(space.available)};
}

std::int64_t default_limit(const DiskSpace& disk) {
  const std::int64_t share = std::min(disk.available / 4, disk.capacity / 8);
  return std::max(share, std::min(kUsualLimit, disk.available / 2));
}

std::shared_ptr<const KernelCache> user_kernel_cache() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string folder = variable("TESSERA_CACHE");
  if (folder == "off") return nullptr;
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) {
    folder = variable("XDG_CACHE_HOME") + "/tessera";
  } else if (folder.empty() && !variable("HOME").empty()) {
    folder = variable("HOME") + "/.cache/tessera";
  }
  if (folder.empty()) return nullptr;
  const std::optional<DiskSpace> disk = disk_space(folder);
  std::int64_t limit = disk ? default_limit(*disk) : kUsualLimit, megabytes = 0;
  const std::string text = variable("TESSERA_CACHE_MB");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), megabytes);
  if (error == std::errc() && end == text.data() + text.size() && megabytes >= 0 &&
      megabytes < (std::int64_t{1} << 40)) {
    limit = megabytes << 20;
  }
  return std::make_shared<const KernelCache>(DiskCache(folder, limit));
}

}  // namespace tessera::kernel
