#include "tessera/codegen/llvm/loader.h"

#include <cmath>
#include <cstring>

#include <dlfcn.h>
#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tessera::codegen {
namespace {

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

// One mapping per object, so that code reaches its constants with short relocations: code pages
// first, then read-only data, then the rest.
class Memory final : public llvm::RuntimeDyld::MemoryManager {
 public:
  ~Memory() override {
    if (base_) munmap(base_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }

  void reserveAllocationSpace(std::uintptr_t code_size, llvm::Align code_align,
                              std::uintptr_t ro_size, llvm::Align ro_align, std::uintptr_t rw_size,
                              llvm::Align rw_align) override {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    code_bytes_ = round_up(code_size + code_align.value(), page);
    ro_bytes_ = round_up(ro_size + ro_align.value(), page);
    size_ = code_bytes_ + ro_bytes_ + round_up(rw_size + rw_align.value(), page);
    void* p = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    base_ = static_cast<std::uint8_t*>(p);
    code_ = {base_, base_ + code_bytes_};
    ro_ = {code_.end, code_.end + ro_bytes_};
    rw_ = {ro_.end, base_ + size_};
  }

  std::uint8_t* allocateCodeSection(std::uintptr_t size, unsigned align, unsigned,
                                    llvm::StringRef) override {
    return code_.take(size, align);
  }

  std::uint8_t* allocateDataSection(std::uintptr_t size, unsigned align, unsigned, llvm::StringRef,
                                    bool read_only) override {
    return read_only ? ro_.take(size, align) : rw_.take(size, align);
  }

  bool finalizeMemory(std::string* error) override {
    if (!base_) return true;
    if (mprotect(base_, code_bytes_, PROT_READ | PROT_EXEC) != 0 ||
        mprotect(base_ + code_bytes_, ro_bytes_, PROT_READ) != 0) {
      if (error) *error = std::strerror(errno);
      return true;
    }
    __builtin___clear_cache(reinterpret_cast<char*>(base_),
                            reinterpret_cast<char*>(base_ + code_bytes_));
    return false;
  }

  void registerEHFrames(std::uint8_t*, std::uint64_t, std::size_t) override {}
  void deregisterEHFrames() override {}

 private:
  struct Part {
    std::uint8_t* next = nullptr;
    std::uint8_t* end = nullptr;
    std::uint8_t* take(std::uintptr_t size, std::uintptr_t align) {
      if (!next) return nullptr;
      const std::uintptr_t at =
          round_up(reinterpret_cast<std::uintptr_t>(next), align == 0 ? 16 : align);
      if (at + size > reinterpret_cast<std::uintptr_t>(end)) return nullptr;
      next = reinterpret_cast<std::uint8_t*>(at + size);
      return reinterpret_cast<std::uint8_t*>(at);
    }
  };
  std::uint8_t* base_ = nullptr;
  std::size_t size_ = 0, code_bytes_ = 0, ro_bytes_ = 0;
  Part code_, ro_, rw_;
};

class ProcessSymbols final : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    void* address = dlsym(RTLD_DEFAULT, name.c_str());
    if (!address) return nullptr;
    return {reinterpret_cast<llvm::JITTargetAddress>(address), llvm::JITSymbolFlags::Exported};
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
};

class Loaded final : public LoadedObject {
 public:
  Loaded() : linker_(memory_, symbols_) {}

  Result<void> load(const std::string& bytes) {
    auto object =
        llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernel"));
    if (!object) {
      return make_error(ErrorCode::kBuildFailed, "object code: {}",
                        llvm::toString(object.takeError()));
    }
    linker_.loadObject(**object);
    if (!linker_.hasError()) linker_.resolveRelocations();
    if (linker_.hasError())
      return make_error(ErrorCode::kBuildFailed, "link: {}", linker_.getErrorString().str());
    std::string reason;
    if (memory_.finalizeMemory(&reason))
      return make_error(ErrorCode::kBuildFailed, "no memory for code: {}", reason);
    return {};
  }

  void* symbol(const std::string& name) override {
    return reinterpret_cast<void*>(linker_.getSymbol(name).getAddress());
  }

 private:
  Memory memory_;
  ProcessSymbols symbols_;
  llvm::RuntimeDyld linker_;
};

}  // namespace

Result<std::unique_ptr<LoadedObject>> load_object(const std::string& object) {
  auto loaded = std::make_unique<Loaded>();
  TESSERA_DO(loaded->load(object));
  return std::unique_ptr<LoadedObject>(std::move(loaded));
}

}  // namespace tessera::codegen
