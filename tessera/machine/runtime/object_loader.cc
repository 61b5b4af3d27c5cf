#include "tessera/machine/runtime/object_loader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/machine/runtime/relocate.h"
#include "tessera/support/ceil_div.h"

namespace tessera::runtime {
namespace {

using target::Arch;

// Far more than a kernel has: bounds what a damaged file can make us reserve.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 28;

template <class... Args>
Error refuse(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorCode::kBuildFailed,
          "object code: " + fmt::format(format, std::forward<Args>(args)...)};
}

// Code pages first, then read-only data, then the rest: code reaches its constants by short
// relocations, and each part has its own protection.
enum Part : std::size_t { kCode, kReadOnly, kWritable, kParts };

struct Section {
  Elf64_Shdr header{};
  std::string_view bytes;             // none for SHT_NOBITS
  std::optional<std::uint64_t> at{};  // offset in the mapping, if it is loaded
};

class Image final : public LoadedObject {
 public:
  Image(std::string_view file, Arch arch, bool here) : file_(file), arch_(arch), here_(here) {}
  ~Image() override {
    if (base_ != nullptr) munmap(base_, mapped_);
  }

  Result<void> load() {
    TESSERA_DO(read_sections());
    TESSERA_DO(read_symbols());
    TESSERA_DO(lay_out());
    TESSERA_DO(place_symbols());
    for (const Section& s : sections_) {
      if (s.header.sh_type == SHT_RELA) TESSERA_DO(relocate_section(s));
      if (s.header.sh_type == SHT_REL) return refuse("relocations without addends");
    }
    return protect();
  }

  void* symbol(const std::string& name) const override {
    const auto found = defined_.find(name);
    return found == defined_.end() ? nullptr : reinterpret_cast<void*>(found->second);
  }

 private:
  struct Symbol {
    std::string name;
    Elf64_Sym entry{};
    std::uint64_t address = 0;
    std::uint64_t stub = 0, slot = 0;  // addresses; 0: none yet
  };

  template <class T>
  Result<T> read_at(std::uint64_t at) const {
    if (at > file_.size() || file_.size() - at < sizeof(T)) return refuse("cut off");
    T value;
    std::memcpy(&value, file_.data() + at, sizeof(T));
    return value;
  }

  Result<void> read_sections();
  Result<void> read_symbols();
  Result<void> lay_out();
  Result<void> place_symbols();
  Result<std::uint64_t> process_symbol(const std::string& name) const;
  Result<void> relocate_section(const Section& relocations);
  std::uint64_t value_of(RelocationBase base, Symbol& symbol);
  Result<void> protect();

  std::string_view file_;
  Arch arch_;
  bool here_;  // the code will run in this process
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  std::size_t symbol_table_ = 0;
  std::map<std::string, std::uint64_t> defined_;
  std::uint8_t* base_ = nullptr;
  std::uint64_t mapped_ = 0, code_bytes_ = 0, read_only_bytes_ = 0;
  std::uint64_t next_stub_ = 0, next_slot_ = 0;  // offsets in the mapping
};

Part part_of(const Elf64_Shdr& header) {
  if ((header.sh_flags & SHF_EXECINSTR) != 0) return kCode;
  return (header.sh_flags & SHF_WRITE) != 0 ? kWritable : kReadOnly;
}

Result<void> Image::read_sections() {
  TESSERA_TRY(const auto elf, read_at<Elf64_Ehdr>(0));
  if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
      elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_type != ET_REL ||
      elf.e_shentsize != sizeof(Elf64_Shdr)) {
    return refuse("not a relocatable ELF64 file");
  }
  if (elf.e_machine != target::row_of(arch_).elf_machine) {
    return refuse("of another architecture");
  }
  if (elf.e_shoff > file_.size()) return refuse("cut off");
  for (std::uint64_t i = 0; i < elf.e_shnum; ++i) {
    Section s;
    TESSERA_TRY(s.header, read_at<Elf64_Shdr>(elf.e_shoff + i * sizeof(Elf64_Shdr)));
    if (s.header.sh_type != SHT_NOBITS && s.header.sh_type != SHT_NULL) {
      if (s.header.sh_offset > file_.size() ||
          file_.size() - s.header.sh_offset < s.header.sh_size) {
        return refuse("cut off");
      }
      s.bytes = file_.substr(s.header.sh_offset, s.header.sh_size);
    }
    if (s.header.sh_type == SHT_SYMTAB) symbol_table_ = i;
    sections_.push_back(s);
  }
  return {};
}

Result<void> Image::read_symbols() {
  if (symbol_table_ == 0) return refuse("no symbols");
  const Section& table = sections_[symbol_table_];
  if (table.header.sh_link >= sections_.size()) return refuse("damaged symbols");
  const std::string_view names = sections_[table.header.sh_link].bytes;
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.bytes.size(); at += sizeof(Elf64_Sym)) {
    Symbol symbol;
    std::memcpy(&symbol.entry, table.bytes.data() + at, sizeof(Elf64_Sym));
    if (symbol.entry.st_name > names.size()) return refuse("damaged symbols");
    const std::string_view name = names.substr(symbol.entry.st_name);
    symbol.name = std::string(name.substr(0, name.find('\0')));
    symbols_.push_back(std::move(symbol));
  }
  return {};
}

Result<void> Image::lay_out() {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t next = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    next = round_up(next, page);
    for (Section& s : sections_) {
      if ((s.header.sh_flags & SHF_ALLOC) == 0 || part_of(s.header) != part) continue;
      const std::uint64_t align = std::max<std::uint64_t>(1, s.header.sh_addralign);
      if (align > page || (align & (align - 1)) != 0 || s.header.sh_size > kMostBytes) {
        return refuse("a section of {} bytes aligned to {}", s.header.sh_size, align);
      }
      next = round_up(next, align);
      s.at = next;
      next += s.header.sh_size;
      if (next > kMostBytes) return refuse("more than {} bytes", kMostBytes);
    }
    // Each symbol may need a stub (code) and a slot (read-only).
    if (part == kCode) {
      next_stub_ = next = round_up(next, kStubBytes);
      next += symbols_.size() * kStubBytes;
      code_bytes_ = round_up(next, page);
    } else if (part == kReadOnly) {
      next_slot_ = next = round_up(next, sizeof(std::uint64_t));
      next += symbols_.size() * sizeof(std::uint64_t);
      read_only_bytes_ = round_up(next, page) - code_bytes_;
    }
  }
  mapped_ = round_up(next, page);
  void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return refuse("no memory for code: {}", std::strerror(errno));
  base_ = static_cast<std::uint8_t*>(p);
  for (const Section& s : sections_) {
    if (s.at && !s.bytes.empty()) std::memcpy(base_ + *s.at, s.bytes.data(), s.bytes.size());
  }
  return {};
}

// What compiled kernels call: mathematics with a float version each (name + "f"), of which the
// optimiser makes one of another (pow of 2, sine with cosine), and what stands for instructions
// that a processor lacks. Threads and memory reach a kernel through its arguments.
constexpr std::string_view kMath[] = {
    "acos",     "acosh",  "asin", "asinh",     "atan", "atanh", "cbrt",  "ceil",
    "copysign", "cos",    "cosh", "erf",       "exp",  "exp10", "exp2",  "expm1",
    "fabs",     "floor",  "fma",  "fmax",      "fmin", "fmod",  "ldexp", "log",
    "log10",    "log1p",  "log2", "nearbyint", "pow",  "rint",  "round", "roundeven",
    "sin",      "sincos", "sinh", "sqrt",      "tan",  "tanh",  "trunc"};
constexpr std::string_view kOthers[] = {"memcpy",         "memmove",       "memset",
                                        "__extendhfdf2",  "__extendhfsf2", "__gnu_f2h_ieee",
                                        "__gnu_h2f_ieee", "__truncdfbf2",  "__truncdfhf2",
                                        "__truncsfbf2",   "__truncsfhf2"};

bool may_call(std::string_view name) {
  const auto in = [&](auto& names, std::string_view wanted) {
    return std::find(std::begin(names), std::end(names), wanted) != std::end(names);
  };
  if (in(kMath, name) || in(kOthers, name)) return true;
  return name.ends_with('f') && in(kMath, name.substr(0, name.size() - 1));
}

Result<std::uint64_t> Image::process_symbol(const std::string& name) const {
  if (!may_call(name)) return refuse("calls {}, which kernels have no use for", name);
  if (!here_) return reinterpret_cast<std::uint64_t>(base_);  // some address within reach
  void* address = dlsym(RTLD_DEFAULT, name.c_str());
  if (address == nullptr) return refuse("{} is not in this process", name);
  return reinterpret_cast<std::uint64_t>(address);
}

Result<void> Image::place_symbols() {
  for (Symbol& symbol : symbols_) {
    const std::uint16_t index = symbol.entry.st_shndx;
    if (index == SHN_UNDEF) {
      if (symbol.name.empty()) continue;
      TESSERA_TRY(symbol.address, process_symbol(symbol.name));
    } else if (index == SHN_ABS) {
      symbol.address = symbol.entry.st_value;
    } else if (index >= sections_.size()) {
      return refuse("damaged symbols");
    } else if (const Section& s = sections_[index]; s.at) {
      if (symbol.entry.st_value > s.header.sh_size) return refuse("damaged symbols");
      symbol.address = reinterpret_cast<std::uint64_t>(base_) + *s.at + symbol.entry.st_value;
      if (ELF64_ST_BIND(symbol.entry.st_info) != STB_LOCAL) defined_[symbol.name] = symbol.address;
    }
  }
  return {};
}

std::uint64_t Image::value_of(RelocationBase base, Symbol& symbol) {
  const auto start = reinterpret_cast<std::uint64_t>(base_);
  const bool inside = symbol.address >= start && symbol.address < start + mapped_;
  if (base == RelocationBase::kSlot) {
    if (symbol.slot == 0) {
      std::memcpy(base_ + next_slot_, &symbol.address, sizeof(symbol.address));
      symbol.slot = start + next_slot_;
      next_slot_ += sizeof(symbol.address);
    }
    return symbol.slot;
  }
  if (base == RelocationBase::kSymbol || inside) return symbol.address;
  if (symbol.stub == 0) {
    write_stub(arch_, symbol.address, base_ + next_stub_);
    symbol.stub = start + next_stub_;
    next_stub_ += kStubBytes;
  }
  return symbol.stub;
}

Result<void> Image::relocate_section(const Section& relocations) {
  if (relocations.header.sh_info >= sections_.size()) return refuse("damaged relocations");
  const Section& place = sections_[relocations.header.sh_info];
  if (!place.at) return {};  // of what is not loaded: notes, debugging
  for (std::size_t at = 0; at + sizeof(Elf64_Rela) <= relocations.bytes.size();
       at += sizeof(Elf64_Rela)) {
    Elf64_Rela entry;
    std::memcpy(&entry, relocations.bytes.data() + at, sizeof(entry));
    const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info));
    const std::uint64_t symbol = ELF64_R_SYM(entry.r_info);
    if (type == 0) continue;
    TESSERA_TRY(const RelocationBase base, relocation_base(arch_, type));
    const std::uint64_t bytes = relocation_bytes(arch_, type);
    if (symbol >= symbols_.size() || entry.r_offset > place.header.sh_size ||
        place.header.sh_size - entry.r_offset < bytes) {
      return refuse("damaged relocations");
    }
    Relocation r;
    r.type = type;
    r.place = reinterpret_cast<std::uint64_t>(base_) + *place.at + entry.r_offset;
    r.value = value_of(base, symbols_[symbol]);
    r.addend = entry.r_addend;
    TESSERA_DO(relocate(arch_, r, base_ + *place.at + entry.r_offset));
  }
  return {};
}

Result<void> Image::protect() {
  if (!here_) return {};
  if (mprotect(base_, code_bytes_, PROT_READ | PROT_EXEC) != 0 ||
      (read_only_bytes_ > 0 && mprotect(base_ + code_bytes_, read_only_bytes_, PROT_READ) != 0)) {
    return refuse("no memory for code: {}", std::strerror(errno));
  }
  __builtin___clear_cache(reinterpret_cast<char*>(base_),
                          reinterpret_cast<char*>(base_ + code_bytes_));
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedObject>> load_object(std::string_view object) {
  auto image = std::make_unique<Image>(object, target::host().arch, /*here=*/true);
  TESSERA_DO(image->load());
  return std::unique_ptr<LoadedObject>(std::move(image));
}

Result<void> check_object(std::string_view object, Arch arch, const std::string& symbol) {
  Image image(object, arch, /*here=*/false);
  TESSERA_DO(image.load());
  if (image.symbol(symbol) == nullptr) return refuse("no symbol {}", symbol);
  return {};
}

}  // namespace tessera::runtime
