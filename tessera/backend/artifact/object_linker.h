// Joins object files and data into one object file, as `ld -r` does, for every architecture.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

class ObjectLinker {
 public:
  explicit ObjectLinker(target::Arch arch) : arch_(arch) {}

  struct Address {
    std::size_t section = 0;
    std::uint64_t offset = 0;
  };

  // An ELF64 object file of the architecture, which outlives the linker; of its sections, those
  // that are loaded. kBuildFailed: it is damaged, of another kind, or defines a symbol again.
  Result<void> add(std::string_view object);

  // A section of data; `relocated`: it holds addresses. Returns its number.
  std::size_t add_section(std::string name, std::uint64_t alignment, bool relocated = false);
  // All of its bytes, which outlive the linker.
  void fill(std::size_t section, std::string_view bytes) { sections_[section].bytes = bytes; }
  void define(const std::string& symbol, Address at, std::uint64_t bytes);
  // The 8 bytes at `from` become the address of `to`, or that of a symbol.
  void point(Address from, Address to);
  void point(Address from, const std::string& symbol);

  // The file as parts that live as long as the linker. Of the symbols that were defined, those of
  // `exports` are visible to others, by the names that it gives them.
  Result<std::vector<std::string_view>> finish(const std::map<std::string, std::string>& exports);

 private:
  struct Symbol {
    std::string name;
    std::uint8_t info = 0;  // type and binding, as ELF has them
    std::uint8_t other = 0;
    std::optional<std::size_t> section{};  // none: undefined, or absolute
    bool absolute = false;
    std::uint64_t value = 0, bytes = 0;

    bool defined() const { return absolute || section.has_value(); }
  };
  struct Relocation {
    std::uint64_t at = 0;
    std::uint32_t type = 0;
    std::size_t symbol = 0;
    std::int64_t addend = 0;
  };
  struct Section {
    std::string name;
    std::uint32_t type = 0;
    std::uint64_t flags = 0, alignment = 1, entry_bytes = 0;
    std::uint64_t zeros = 0;  // bytes of a section that has none in the file
    std::string_view bytes;
    std::size_t symbol = 0;  // of the section itself
    std::vector<Relocation> relocations{};
  };
  class Reader;
  class Writer;

  std::size_t add_section(Section section);
  // The symbol that all objects know by this name.
  std::size_t shared_symbol(const std::string& name);

  target::Arch arch_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  std::map<std::string, std::size_t> shared_;
  std::deque<std::string> texts_;  // that finish() made
};

// A static library of one object file that defines `symbols`, as parts; `texts` owns what is new.
std::vector<std::string_view> archive_of(const std::vector<std::string_view>& object,
                                         const std::vector<std::string>& symbols,
                                         std::deque<std::string>* texts);

}  // namespace tessera::artifact
