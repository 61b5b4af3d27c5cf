#include "tessera/kernel/kernel_cache.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <elf.h>
#include <link.h>

namespace tessera::kernel {
namespace {

constexpr std::int64_t kDefaultLimit = std::int64_t{1} << 30;

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

// Numbers and texts one after the other; a text has its length before it.
class Writer {
 public:
  void number(std::int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void text(std::string_view t) {
    number(static_cast<std::int64_t>(t.size()));
    bytes_ += t;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t number() {
    std::int64_t n = 0;
    if (bytes_.size() < sizeof(n)) return ok_ = false, 0;
    std::memcpy(&n, bytes_.data(), sizeof(n));
    bytes_.remove_prefix(sizeof(n));
    return n;
  }
  std::string_view text() {
    const std::int64_t size = number();
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes_.size()) return ok_ = false, "";
    const std::string_view out = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(out.size());
    return out;
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

// Everything of a binary but its code and its target.
void write_description(Writer& writer, const runtime::Binary& binary) {
  writer.number(static_cast<std::int64_t>(binary.kind));
  writer.number(static_cast<std::int64_t>(binary.kernels.size()));
  for (const runtime::KernelInfo& k : binary.kernels) {
    writer.text(k.name);
    writer.number(k.shared_bytes);
    writer.number(k.worker_bytes);
  }
  writer.number(static_cast<std::int64_t>(binary.launches.size()));
  for (const runtime::LaunchInfo& l : binary.launches) {
    writer.text(l.name);
    for (const auto* sizes : {&l.grid, &l.block}) {
      for (const std::int64_t n : *sizes) writer.number(n);
    }
    writer.number(l.shared_bytes);
    writer.number(static_cast<std::int64_t>(l.arguments.size()));
    for (const int a : l.arguments) writer.number(a);
  }
  writer.number(static_cast<std::int64_t>(binary.temporaries.size()));
  for (const std::int64_t t : binary.temporaries) writer.number(t);
  writer.number(binary.parameters);
}

void read_description(Reader& reader, runtime::Binary* binary) {
  binary->kind = static_cast<runtime::BinaryKind>(reader.number());
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n) {
    runtime::KernelInfo k;
    k.name = reader.text();
    k.shared_bytes = reader.number();
    k.worker_bytes = reader.number();
    binary->kernels.push_back(std::move(k));
  }
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n) {
    runtime::LaunchInfo l;
    l.name = reader.text();
    for (auto* sizes : {&l.grid, &l.block}) {
      for (std::int64_t& size : *sizes) size = reader.number();
    }
    l.shared_bytes = reader.number();
    for (std::int64_t a = reader.number(); a > 0 && reader.ok(); --a)
      l.arguments.push_back(static_cast<int>(reader.number()));
    binary->launches.push_back(std::move(l));
  }
  for (std::int64_t n = reader.number(); n > 0 && reader.ok(); --n)
    binary->temporaries.push_back(reader.number());
  binary->parameters = static_cast<int>(reader.number());
}

}  // namespace

std::string KernelCache::key(const target::Target& target, const codegen::CodegenOptions& options,
                             const std::string& definition, const std::string& schedule) {
  if (build_id().empty()) return "";
  return fmt::format("build {}\ntarget {}\nlevel {}\nschedule {}\n{}\n{}", build_id(),
                     target::to_text(target), options.opt_level,
                     schedule.empty() ? "default" : "given", schedule, definition);
}

std::optional<CachedKernel> KernelCache::find(const std::string& key,
                                              const target::Target& target) const {
  if (key.empty()) return std::nullopt;
  const std::optional<std::string> bytes = disk_.find(key);
  if (!bytes) return std::nullopt;
  Reader reader(*bytes);
  CachedKernel out;
  read_description(reader, &out.binary);
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
  const std::string_view code = reader.text();
  if (!reader.finished()) return std::nullopt;
  out.binary.target = target;
  out.binary.bytes.assign(code.begin(), code.end());
  return out;
}

void KernelCache::store(const std::string& key, const runtime::Binary& binary,
                        const std::vector<schedule::Layout>& param_layouts) const {
  if (key.empty()) return;
  Writer writer;
  write_description(writer, binary);
  writer.number(static_cast<std::int64_t>(param_layouts.size()));
  for (const schedule::Layout& layout : param_layouts) {
    writer.text(layout.empty() ? "" : schedule::to_text(layout));
  }
  writer.text({reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
  (void)disk_.store(key, writer.bytes());
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
  std::int64_t limit = kDefaultLimit, megabytes = 0;
  const std::string text = variable("TESSERA_CACHE_MB");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), megabytes);
  if (error == std::errc() && end == text.data() + text.size() && megabytes >= 0 &&
      megabytes < (std::int64_t{1} << 40)) {
    limit = megabytes << 20;
  }
  return std::make_shared<const KernelCache>(DiskCache(folder, limit));
}

}  // namespace tessera::kernel
