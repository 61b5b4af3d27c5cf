#include "tessera/backend/artifact/object_linker.h"

#include <cstring>

#include <elf.h>

namespace tessera::artifact {
namespace {

// Numbers of sections above are markers.
constexpr std::size_t kMostSections = SHN_LORESERVE;

template <class... Args>
Error refuse(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorCode::kBuildFailed,
          "object file: " + fmt::format(format, std::forward<Args>(args)...)};
}

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

std::string text_at(std::string_view names, std::uint64_t at) {
  if (at >= names.size()) return "";
  names.remove_prefix(at);
  return std::string(names.substr(0, names.find('\0')));
}

}  // namespace

// Takes over what one object file has.
class ObjectLinker::Reader {
 public:
  Reader(ObjectLinker& linker, std::string_view file) : linker_(linker), file_(file) {}

  Result<void> read() {
    TESSERA_DO(read_headers());
    TESSERA_DO(take_sections());
    TESSERA_DO(take_symbols());
    return take_relocations();
  }

 private:
  template <class T>
  Result<T> read_at(std::string_view from, std::uint64_t at) const {
    if (at > from.size() || from.size() - at < sizeof(T)) return refuse("cut off");
    T value;
    std::memcpy(&value, from.data() + at, sizeof(T));
    return value;
  }

  Result<std::string_view> content(const Elf64_Shdr& h) const {
    if (h.sh_type == SHT_NOBITS) return std::string_view();
    if (h.sh_offset > file_.size() || file_.size() - h.sh_offset < h.sh_size) {
      return refuse("cut off");
    }
    return file_.substr(h.sh_offset, h.sh_size);
  }

  Result<void> read_headers() {
    TESSERA_TRY(const auto elf, read_at<Elf64_Ehdr>(file_, 0));
    if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_type != ET_REL ||
        elf.e_shentsize != sizeof(Elf64_Shdr)) {
      return refuse("not a relocatable ELF64 file");
    }
    if (elf.e_machine != target::row_of(linker_.arch_).elf_machine)
      return refuse("of another architecture");
    for (std::uint64_t i = 0; i < elf.e_shnum; ++i) {
      TESSERA_TRY(const auto header,
                  read_at<Elf64_Shdr>(file_, elf.e_shoff + i * sizeof(Elf64_Shdr)));
      headers_.push_back(header);
    }
    if (elf.e_shstrndx >= headers_.size()) return refuse("no names of sections");
    names_ = elf.e_shstrndx;
    return {};
  }

  Result<void> take_sections() {
    TESSERA_TRY(const std::string_view names, content(headers_[names_]));
    numbers_.resize(headers_.size());
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      const Elf64_Shdr& h = headers_[i];
      if (h.sh_type == SHT_SYMTAB) symbol_table_ = i;
      if (h.sh_type == SHT_GROUP || (h.sh_flags & SHF_LINK_ORDER) != 0) {
        return refuse("sections that belong to others");
      }
      if (h.sh_type == SHT_REL) return refuse("relocations without addends");
      const std::string name = text_at(names, h.sh_name);
      // Properties hold for an object if they do for all of its parts.
      if ((h.sh_flags & SHF_ALLOC) == 0 || name == ".note.gnu.property") continue;
      Section s{.name = name, .type = h.sh_type, .flags = h.sh_flags};
      s.alignment = h.sh_addralign;
      s.entry_bytes = h.sh_entsize;
      s.zeros = h.sh_type == SHT_NOBITS ? h.sh_size : 0;
      TESSERA_TRY(s.bytes, content(h));
      numbers_[i] = linker_.add_section(std::move(s));
    }
    if (symbol_table_ == 0) return refuse("no symbols");
    return {};
  }

  Result<void> take_symbols() {
    const Elf64_Shdr& table = headers_[symbol_table_];
    if (table.sh_link >= headers_.size()) return refuse("damaged symbols");
    TESSERA_TRY(const std::string_view bytes, content(table));
    TESSERA_TRY(const std::string_view names, content(headers_[table.sh_link]));
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= bytes.size(); at += sizeof(Elf64_Sym)) {
      TESSERA_TRY(const auto entry, read_at<Elf64_Sym>(bytes, at));
      TESSERA_TRY(const auto number, take_symbol(entry, text_at(names, entry.st_name)));
      symbols_.push_back(number);
    }
    return {};
  }

  // None: nothing that is loaded refers to it.
  Result<std::optional<std::size_t>> take_symbol(const Elf64_Sym& entry, const std::string& name) {
    const bool local = ELF64_ST_BIND(entry.st_info) == STB_LOCAL;
    Symbol s{.name = name, .info = entry.st_info, .other = entry.st_other};
    s.value = entry.st_value;
    s.bytes = entry.st_size;
    s.absolute = entry.st_shndx == SHN_ABS;
    if (entry.st_shndx == SHN_COMMON) return refuse("{} has no section", name);
    if (!s.absolute && entry.st_shndx != SHN_UNDEF) {
      if (entry.st_shndx >= numbers_.size()) return refuse("damaged symbol {}", name);
      s.section = numbers_[entry.st_shndx];
      if (!s.section && !local) return refuse("{} is not loaded", name);
    }
    if (local) {
      if (!s.section || ELF64_ST_TYPE(entry.st_info) == STT_FILE) {
        return std::optional<std::size_t>();
      }
      if (ELF64_ST_TYPE(entry.st_info) == STT_SECTION) {
        return std::optional<std::size_t>(linker_.sections_[*s.section].symbol);
      }
      linker_.symbols_.push_back(std::move(s));
      return std::optional<std::size_t>(linker_.symbols_.size() - 1);
    }
    const std::size_t number = linker_.shared_symbol(name);
    if (s.defined()) {
      if (linker_.symbols_[number].defined()) return refuse("{} is defined twice", name);
      linker_.symbols_[number] = std::move(s);
    }
    return std::optional<std::size_t>(number);
  }

  Result<void> take_relocations() {
    for (const Elf64_Shdr& h : headers_) {
      if (h.sh_type != SHT_RELA) continue;
      if (h.sh_info >= numbers_.size()) return refuse("damaged relocations");
      const std::optional<std::size_t> section = numbers_[h.sh_info];
      if (!section) continue;
      TESSERA_TRY(const std::string_view bytes, content(h));
      for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size();
           at += sizeof(Elf64_Rela)) {
        TESSERA_TRY(const auto entry, read_at<Elf64_Rela>(bytes, at));
        const std::uint64_t symbol = ELF64_R_SYM(entry.r_info);
        if (symbol >= symbols_.size() || !symbols_[symbol]) return refuse("damaged relocations");
        linker_.sections_[*section].relocations.push_back(
            {entry.r_offset, static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info)),
             *symbols_[symbol], entry.r_addend});
      }
    }
    return {};
  }

  ObjectLinker& linker_;
  std::string_view file_;
  std::vector<Elf64_Shdr> headers_;
  std::vector<std::optional<std::size_t>> numbers_, symbols_;  // in the linker
  std::size_t names_ = 0, symbol_table_ = 0;
};

// The file: header, content of the sections, symbols, names, relocations, headers of the sections.
class ObjectLinker::Writer {
 public:
  Writer(ObjectLinker& linker, const std::map<std::string, std::string>& exports)
      : linker_(linker), exports_(exports) {}

  std::vector<std::string_view> write() {
    const std::size_t count = linker_.sections_.size();
    headers_.resize(1);
    parts_.emplace_back();  // the header of the file, at the end
    for (const Section& s : linker_.sections_) {
      add(s.name, s.type, s.flags, s.bytes, s.alignment, s.entry_bytes);
      headers_.back().sh_size += s.zeros;
    }
    const std::size_t table = count + 1;
    const std::size_t locals = order_symbols();
    add(".symtab", SHT_SYMTAB, 0, keep(std::move(table_)), 8, sizeof(Elf64_Sym));
    headers_.back().sh_link = static_cast<Elf64_Word>(table + 1);
    headers_.back().sh_info = static_cast<Elf64_Word>(locals);
    add(".strtab", SHT_STRTAB, 0, keep(std::move(names_)), 1, 0);
    for (std::size_t i = 0; i < count; ++i) add_relocations(i, table);
    // The stack needs not be executable.
    add(".note.GNU-stack", SHT_PROGBITS, 0, {}, 1, 0);
    add_name(".shstrtab");
    const std::string_view section_names = keep(std::move(section_names_));
    add_content(SHT_STRTAB, 0, section_names, 1, 0);
    finish_headers();
    return parts_;
  }

 private:
  std::string_view keep(std::string text) { return linker_.texts_.emplace_back(std::move(text)); }

  void pad(std::uint64_t alignment) {
    const std::uint64_t missing = alignment > 1 ? (alignment - at_ % alignment) % alignment : 0;
    if (missing == 0) return;
    parts_.push_back(keep(std::string(missing, '\0')));
    at_ += missing;
  }

  void add_name(const std::string& name) {
    headers_.emplace_back();
    headers_.back().sh_name = static_cast<Elf64_Word>(section_names_.size());
    section_names_ += name + '\0';
  }

  void add_content(std::uint32_t type, std::uint64_t flags, std::string_view bytes,
                   std::uint64_t alignment, std::uint64_t entry_bytes) {
    pad(alignment);
    Elf64_Shdr& h = headers_.back();
    h.sh_type = type;
    h.sh_flags = flags;
    h.sh_offset = at_;
    h.sh_size = bytes.size();
    h.sh_addralign = alignment;
    h.sh_entsize = entry_bytes;
    parts_.push_back(bytes);
    at_ += bytes.size();
  }

  void add(const std::string& name, std::uint32_t type, std::uint64_t flags, std::string_view bytes,
           std::uint64_t alignment, std::uint64_t entry_bytes) {
    add_name(name);
    add_content(type, flags, bytes, alignment, entry_bytes);
  }

  void add_symbol(const Symbol& s, std::size_t number, bool global) {
    const auto exported = exports_.find(s.name);
    const std::string& name = s.defined() && global ? exported->second : s.name;
    Elf64_Sym entry{};
    if (!name.empty()) {
      entry.st_name = static_cast<Elf64_Word>(names_.size());
      names_ += name + '\0';
    }
    const unsigned binding = global ? ELF64_ST_BIND(s.info) : unsigned{STB_LOCAL};
    entry.st_info = static_cast<unsigned char>(ELF64_ST_INFO(binding, ELF64_ST_TYPE(s.info)));
    entry.st_other = global ? s.other : std::uint8_t{STV_DEFAULT};
    entry.st_shndx = s.section    ? static_cast<Elf64_Section>(*s.section + 1)
                     : s.absolute ? Elf64_Section{SHN_ABS}
                                  : Elf64_Section{SHN_UNDEF};
    entry.st_value = s.value;
    entry.st_size = s.bytes;
    table_ += bytes_of(entry);
    order_[number] = ++written_;
  }

  // Local symbols stand first; returns how many, the empty one of every table among them.
  std::size_t order_symbols() {
    table_ = bytes_of(Elf64_Sym{});
    names_.assign(1, '\0');
    order_.resize(linker_.symbols_.size());
    std::size_t locals = 1;
    for (const bool global : {false, true}) {
      for (std::size_t i = 0; i < linker_.symbols_.size(); ++i) {
        const Symbol& s = linker_.symbols_[i];
        const bool visible = ELF64_ST_BIND(s.info) != STB_LOCAL &&
                             (!s.defined() || exports_.find(s.name) != exports_.end());
        if (visible == global) add_symbol(s, i, global);
      }
      if (!global) locals = written_ + 1;
    }
    return locals;
  }

  void add_relocations(std::size_t section, std::size_t table) {
    const Section& s = linker_.sections_[section];
    if (s.relocations.empty()) return;
    std::string bytes;
    for (const Relocation& r : s.relocations) {
      Elf64_Rela entry{};
      entry.r_offset = r.at;
      entry.r_info = ELF64_R_INFO(std::uint64_t{order_[r.symbol]}, r.type);
      entry.r_addend = r.addend;
      bytes += bytes_of(entry);
    }
    add(".rela" + s.name, SHT_RELA, SHF_INFO_LINK, keep(std::move(bytes)), 8, sizeof(Elf64_Rela));
    headers_.back().sh_link = static_cast<Elf64_Word>(table);
    headers_.back().sh_info = static_cast<Elf64_Word>(section + 1);
  }

  void finish_headers() {
    pad(8);
    Elf64_Ehdr elf{};
    std::memcpy(elf.e_ident, ELFMAG, SELFMAG);
    elf.e_ident[EI_CLASS] = ELFCLASS64;
    elf.e_ident[EI_DATA] = ELFDATA2LSB;
    elf.e_ident[EI_VERSION] = EV_CURRENT;
    elf.e_type = ET_REL;
    elf.e_machine = target::row_of(linker_.arch_).elf_machine;
    elf.e_version = EV_CURRENT;
    elf.e_shoff = at_;
    elf.e_ehsize = sizeof(Elf64_Ehdr);
    elf.e_shentsize = sizeof(Elf64_Shdr);
    elf.e_shnum = static_cast<Elf64_Half>(headers_.size());
    elf.e_shstrndx = static_cast<Elf64_Half>(headers_.size() - 1);
    parts_[0] = keep(std::string(bytes_of(elf)));
    std::string headers;
    for (const Elf64_Shdr& h : headers_) headers += bytes_of(h);
    parts_.push_back(keep(std::move(headers)));
  }

  ObjectLinker& linker_;
  const std::map<std::string, std::string>& exports_;
  std::vector<Elf64_Shdr> headers_;
  std::string section_names_ = std::string(1, '\0');
  std::string table_, names_;
  std::vector<std::size_t> order_;  // of each symbol, in the table
  std::size_t written_ = 0;
  std::vector<std::string_view> parts_;
  std::uint64_t at_ = sizeof(Elf64_Ehdr);
};

Result<void> ObjectLinker::add(std::string_view object) { return Reader(*this, object).read(); }

std::size_t ObjectLinker::add_section(Section section) {
  section.symbol = symbols_.size();
  symbols_.push_back({.info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION), .section = sections_.size()});
  sections_.push_back(std::move(section));
  return sections_.size() - 1;
}

std::size_t ObjectLinker::add_section(std::string name, std::uint64_t alignment, bool relocated) {
  Section s{.name = std::move(name), .type = SHT_PROGBITS, .flags = SHF_ALLOC};
  if (relocated) s.flags |= SHF_WRITE;
  s.alignment = alignment;
  return add_section(std::move(s));
}

std::size_t ObjectLinker::shared_symbol(const std::string& name) {
  const auto [it, added] = shared_.try_emplace(name, symbols_.size());
  if (added) {
    symbols_.push_back({.name = name, .info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)});
  }
  return it->second;
}

void ObjectLinker::define(const std::string& symbol, Address at, std::uint64_t bytes) {
  Symbol& s = symbols_[shared_symbol(symbol)];
  s.info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  s.section = at.section;
  s.value = at.offset;
  s.bytes = bytes;
}

void ObjectLinker::point(Address from, Address to) {
  sections_[from.section].relocations.push_back({from.offset, target::row_of(arch_).elf_address,
                                                 sections_[to.section].symbol,
                                                 static_cast<std::int64_t>(to.offset)});
}

void ObjectLinker::point(Address from, const std::string& symbol) {
  const std::size_t number = shared_symbol(symbol);
  sections_[from.section].relocations.push_back(
      {from.offset, target::row_of(arch_).elf_address, number, 0});
}

Result<std::vector<std::string_view>> ObjectLinker::finish(
    const std::map<std::string, std::string>& exports) {
  // Each may have a section of relocations, and there are five more.
  if (2 * sections_.size() + 6 > kMostSections) return refuse("{} sections", sections_.size());
  for (const auto& [symbol, name] : exports) {
    const auto found = shared_.find(symbol);
    if (found == shared_.end() || !symbols_[found->second].defined()) {
      return refuse("no {}, which {} is to be", symbol, name);
    }
  }
  return Writer(*this, exports).write();
}

std::vector<std::string_view> archive_of(const std::vector<std::string_view>& object,
                                         const std::vector<std::string>& symbols,
                                         std::deque<std::string>* texts) {
  constexpr std::string_view kMagic = "!<arch>\n";
  const auto header = [](std::string_view name, std::size_t bytes) {
    return fmt::format("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", name, 0, 0, 0, 644, bytes);
  };
  std::string index(4 * (symbols.size() + 1), '\0');
  for (const std::string& symbol : symbols) index += symbol + '\0';
  if (index.size() % 2 != 0) index += '\0';
  const std::size_t first = kMagic.size() + header("", 0).size() + index.size();
  const auto put = [&](std::size_t at, std::size_t value) {  // big-endian, as all archives have it
    for (std::size_t i = 0; i < 4; ++i) {
      index[4 * at + i] = static_cast<char>(value >> (24 - 8 * i) & 0xff);
    }
  };
  put(0, symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) put(i + 1, first);
  std::size_t bytes = 0;
  for (const std::string_view part : object) bytes += part.size();
  texts->push_back(std::string(kMagic) + header("/", index.size()) + index +
                   header("model.o/", bytes));
  std::vector<std::string_view> parts = {texts->back()};
  parts.insert(parts.end(), object.begin(), object.end());
  if (bytes % 2 != 0) parts.emplace_back("\n");
  return parts;
}

}  // namespace tessera::artifact
