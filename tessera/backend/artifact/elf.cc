#include "tessera/backend/artifact/elf.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <elf.h>

namespace tessera::artifact {
namespace {

constexpr std::string_view kArMagic = "!<arch>\n";
constexpr std::size_t kArHeader = 60, kArSizeAt = 48, kArSizeDigits = 10;

template <class T>
std::optional<T> read_at(std::string_view file, std::uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

std::optional<std::string_view> part(std::string_view file, const Elf64_Shdr& header) {
  if (header.sh_type == SHT_NOBITS) return std::nullopt;
  if (header.sh_offset > file.size() || file.size() - header.sh_offset < header.sh_size) {
    return std::nullopt;
  }
  return file.substr(header.sh_offset, header.sh_size);
}

std::optional<std::string_view> section_of_elf(std::string_view file, std::string_view section) {
  const auto elf = read_at<Elf64_Ehdr>(file, 0);
  const bool readable = elf && std::memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 &&
                        elf->e_ident[EI_CLASS] == ELFCLASS64 &&
                        elf->e_ident[EI_DATA] == ELFDATA2LSB &&
                        elf->e_shentsize == sizeof(Elf64_Shdr);
  if (!readable) return std::nullopt;
  const auto header_of = [&](std::uint64_t i) {
    return elf->e_shoff > file.size()
               ? std::nullopt
               : read_at<Elf64_Shdr>(file, elf->e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names_header = header_of(elf->e_shstrndx);
  const auto names = names_header ? part(file, *names_header) : std::nullopt;
  if (!names) return std::nullopt;
  for (std::uint64_t i = 0; i < elf->e_shnum; ++i) {
    const auto header = header_of(i);
    if (!header) return std::nullopt;
    if (header->sh_name >= names->size()) continue;
    const std::string_view name = names->substr(header->sh_name);
    if (name.substr(0, name.find('\0')) == section) return part(file, *header);
  }
  return std::nullopt;
}

std::optional<std::string_view> section_of_archive(std::string_view file,
                                                   std::string_view section) {
  std::size_t at = kArMagic.size();
  while (file.size() - at >= kArHeader) {
    std::uint64_t size = 0;
    const char* digits = file.data() + at + kArSizeAt;
    if (std::from_chars(digits, digits + kArSizeDigits, size).ec != std::errc()) break;
    at += kArHeader;
    if (size > file.size() - at) break;
    if (const auto found = section_of_elf(file.substr(at, size), section)) return found;
    at = std::min<std::size_t>(at + size + size % 2, file.size());
  }
  return std::nullopt;
}

}  // namespace

Result<std::string_view> find_section(std::string_view file, std::string_view section) {
  const auto found = file.starts_with(kArMagic) ? section_of_archive(file, section)
                                                : section_of_elf(file, section);
  if (!found) return make_error(ErrorCode::kInvalidArgument, "no section {}", section);
  return *found;
}

Result<void> check_whole(const std::string& path) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  std::string start(sizeof(Elf64_Ehdr), '\0');
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return make_error(ErrorCode::kIo, "cannot read {}", path);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  const auto elf = read_at<Elf64_Ehdr>(
      std::string_view(start).substr(0, static_cast<std::size_t>(file.gcount())), 0);
  const std::uint64_t headers = elf ? std::uint64_t{elf->e_shnum} * sizeof(Elf64_Shdr) : 0;
  if (!elf || elf->e_shoff > size || size - elf->e_shoff < headers) {
    return make_error(ErrorCode::kInvalidArgument, "{} is cut off", path);
  }
  return {};
}

}  // namespace tessera::artifact
