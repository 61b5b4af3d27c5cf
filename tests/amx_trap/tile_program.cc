#include "tests/amx_trap/tile_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tessera/support/check.h"

namespace tessera::testing {
namespace {

constexpr int kStackPointer = 4;

// Elements of memory: bytes, or bf16 numbers of some kind.
std::uint16_t random_element(Rng& rng, int flavour) {
  const auto bits = static_cast<std::uint16_t>(rng.next());
  const auto with_exponent = [&](std::int64_t e) {
    return static_cast<std::uint16_t>((bits & 0x807f) | e << 7);
  };
  switch (flavour) {
    case 0:
      return with_exponent(rng.between(120, 134));
    // Products and sums around the smallest normal number, and numbers below it.
    case 1:
      if (rng.chance(0.3)) return with_exponent(rng.between(0, 3));
      return with_exponent(rng.between(56, 66));
    case 2:
      return with_exponent(rng.between(1, 254));
    case 3: {  // bytes at the ends of their ranges
      static constexpr std::uint8_t kEnds[] = {0, 1, 0x7f, 0x80, 0x81, 0xff};
      return static_cast<std::uint16_t>(kEnds[rng.below(6)] | kEnds[rng.below(6)] << 8);
    }
    case 4:
      if (rng.chance(0.01)) return static_cast<std::uint16_t>(bits | 0x7f80);  // NaN or infinity
      if (rng.chance(0.01)) return static_cast<std::uint16_t>((bits & 0x8000) | 0x7f80);
      if (rng.chance(0.05)) return static_cast<std::uint16_t>(bits & 0x8000);
      return with_exponent(rng.between(120, 134));
    default:
      return bits;
  }
}

class Generator {
 public:
  Generator(std::uint64_t seed, bool f16) : rng_(seed), f16_(f16) {}

  TileProgram run() {
    TileProgram out;
    const auto flavour = static_cast<int>(rng_.below(6));
    for (std::int64_t i = 0; i < kDataBytes / 2; ++i) {
      const std::uint16_t v = random_element(rng_, flavour);
      out.memory.push_back(static_cast<std::uint8_t>(v));
      out.memory.push_back(static_cast<std::uint8_t>(v >> 8));
    }
    out.memory.resize(kMemoryBytes);
    const std::int64_t parts = rng_.between(1, 3);
    for (std::int64_t p = 0; p < parts; ++p) {
      configure();
      for (std::int64_t n = rng_.between(5, 40); n > 0; --n) add();
    }
    show_all();
    out.steps = std::move(steps_);
    return out;
  }

 private:
  enum Role { kSum, kA, kB, kOther, kUnused };

  void configure() {
    TileConfig c{};
    c.palette = 1;
    const auto m = rng_.between(1, kTileRows), k = rng_.between(1, kTileRows),
               n = rng_.between(1, kTileRows);
    roles_ = {kSum, kSum, kA, kA, kB, kB, kOther, rng_.chance(0.3) ? kUnused : kSum};
    for (std::size_t i = roles_.size(); i-- > 1;)
      std::swap(roles_[i], roles_[static_cast<std::size_t>(rng_.below(static_cast<int>(i) + 1))]);
    for (std::size_t t = 0; t < kTiles; ++t) {
      std::int64_t rows = 0, bytes = 0;
      if (roles_[t] == kSum) rows = m, bytes = 4 * n;
      if (roles_[t] == kA) rows = m, bytes = 4 * k;
      if (roles_[t] == kB) rows = k, bytes = 4 * n;
      if (roles_[t] == kOther)
        rows = rng_.between(1, kTileRows), bytes = 4 * rng_.between(1, kTileRowBytes / 4);
      c.rows[t] = static_cast<std::uint8_t>(rows);
      c.row_bytes[t] = static_cast<std::uint16_t>(bytes);
    }
    config_ = c;
    if (rng_.chance(0.3)) config_.start_row = static_cast<std::uint8_t>(rng_.below(16));
    start_row_ = config_.start_row;
    TileStep step{.op = TileOp::kLoadConfig, .config = config_};
    step.offset = 64 * rng_.below(kDataBytes / 64);
    step.form = random_form(true);
    steps_.push_back(step);
  }

  int of_role(Role role) {
    for (;;) {
      const auto t = static_cast<std::size_t>(rng_.below(kTiles));
      if (roles_[t] == role) return static_cast<int>(t);
    }
  }
  int any_tile() {
    for (;;) {
      const auto t = static_cast<std::size_t>(rng_.below(kTiles));
      if (roles_[t] != kUnused) return static_cast<int>(t);
    }
  }

  void add() {
    TileStep step;
    const double what = rng_.uniform();
    if (what < 0.45) {
      step.op = TileOp::kDot;
      step.dot = static_cast<Dot>(rng_.below(f16_ ? 6 : 5));
      step.tile = of_role(kSum);
      step.a = of_role(kA);
      step.b = of_role(kB);
    } else if (what < 0.92) {
      step.op = what < 0.75 ? TileOp::kLoad : TileOp::kStore;
      step.tile = any_tile();
      if (start_row_ >= config_.rows[step.tile]) return;  // refused
      step.streamed = rng_.chance(0.3);
      choose_place(step);
    } else if (what < 0.97) {
      step.op = TileOp::kZero;
      step.tile = any_tile();
    } else {
      step.op = TileOp::kStoreConfig;
      step.offset = rng_.below(kDataBytes - 64);
      step.form = random_form(true);
      steps_.push_back(step);
      return;
    }
    start_row_ = 0;
    steps_.push_back(step);
  }

  // Rows that follow each other in either direction, overlap, or are the same.
  void choose_place(TileStep& step) {
    step.form = random_form(false);
    step.on_stack = step.form.base == AddressForm::Base::kStack;
    const std::int64_t limit = step.on_stack ? kStackBytes : kDataBytes;
    std::int64_t stride = rng_.chance(0.7) ? 64 : rng_.between(-200, 200);
    stride >>= step.form.scale;
    step.stride = step.form.index_register < 0 ? 0 : stride << step.form.scale;
    const std::int64_t first = std::max<std::int64_t>(0, -15 * step.stride);
    const std::int64_t last = limit - 64 - std::max<std::int64_t>(0, 15 * step.stride);
    step.offset = rng_.between(first, last);
  }

  int random_register(int other) {
    for (;;) {
      const auto r = static_cast<int>(rng_.below(16));
      if (r != kStackPointer && r != other) return r;
    }
  }

  AddressForm random_form(bool config) {
    using Base = AddressForm::Base;
    AddressForm f;
    const double base = rng_.uniform();
    if (base < 0.15 && !config) f.base = Base::kStack;
    if (base >= 0.15 && base < 0.25) f.base = Base::kNone;
    if (base >= 0.25 && base < 0.35 && config) f.base = Base::kInstruction;
    f.base_register = f.base == Base::kStack ? kStackPointer : random_register(-1);
    if (f.base != Base::kInstruction && rng_.chance(config ? 0.3 : 0.9)) {
      f.index_register = random_register(f.base_register);
      f.scale = static_cast<int>(rng_.below(4));
    }
    f.displacement_bytes = rng_.chance(0.5) ? 4 : rng_.chance(0.5) ? 1 : 0;
    f.displacement = f.displacement_bytes == 4 ? static_cast<std::int32_t>(rng_.next())
                     : f.displacement_bytes == 1
                         ? static_cast<std::int32_t>(rng_.between(-128, 127))
                         : 0;
    f.fs = f.base == Base::kRegister && rng_.chance(0.1);
    return f;
  }

  void show_all() {
    // A start row would hide what is above it.
    steps_.push_back({.op = TileOp::kStoreConfig, .offset = kDataBytes, .form = {}});
    for (int t = 0; t < kTiles; ++t) {
      if (config_.rows[t] == 0) continue;
      const std::int64_t at = kDataBytes + 64 + t * kTileRows * kTileRowBytes;
      TileStep step{.op = TileOp::kStore, .tile = t, .offset = at, .stride = 64};
      step.form = {.base_register = 7, .index_register = 6};
      if (start_row_ >= config_.rows[t]) continue;
      start_row_ = 0;
      steps_.push_back(step);
    }
    steps_.push_back({.op = TileOp::kRelease});
  }

  Rng rng_;
  bool f16_;
  std::vector<TileStep> steps_;
  std::array<Role, kTiles> roles_{};
  TileConfig config_{};
  int start_row_ = 0;
};

class Assembler {
 public:
  Assembler(const TileProgram& program, std::uint8_t* memory, bool locked)
      : program_(program), locked_(locked), memory_(reinterpret_cast<std::uint64_t>(memory)) {
    syscall(SYS_arch_prctl, 0x1003, &fs_);
  }

  std::vector<std::uint8_t> run() {
    const auto stack = static_cast<std::uint32_t>(kStackBytes);
    for (const int r : {3, 5, 12, 13, 14, 15}) push(r);
    bytes({0x48, 0x81, 0xec});  // sub rsp, kStackBytes
    word(stack);
    bytes({0x31, 0xc0, 0x48, 0x89, 0xe7, 0xb9});  // xor eax, eax; mov rdi, rsp; mov ecx, ...
    word(stack);
    bytes({0xf3, 0xaa});  // rep stosb
    for (const TileStep& step : program_.steps) emit(step);
    bytes({0x48, 0x81, 0xc4});  // add rsp, kStackBytes
    word(stack);
    for (const int r : {15, 14, 13, 12, 5, 3}) pop(r);
    bytes({0xc3});
    return std::move(code_);
  }

 private:
  void bytes(std::initializer_list<int> list) {
    for (const int b : list) code_.push_back(static_cast<std::uint8_t>(b));
  }
  void word(std::uint32_t v) {
    for (int i = 0; i < 4; ++i) code_.push_back(static_cast<std::uint8_t>(v >> 8 * i));
  }
  void push(int r) { r < 8 ? bytes({0x50 + r}) : bytes({0x41, 0x48 + r}); }
  void pop(int r) { r < 8 ? bytes({0x58 + r}) : bytes({0x41, 0x50 + r}); }
  void move(int r, std::uint64_t value) {
    bytes({r < 8 ? 0x48 : 0x49, 0xb8 + (r & 7)});
    word(static_cast<std::uint32_t>(value));
    word(static_cast<std::uint32_t>(value >> 32));
  }

  // pp: 0 none, 1 66, 2 F3, 3 F2; r, x, b: upper bits of registers.
  void vex(int pp, int vvvv, bool x, bool b, int opcode, bool fs = false) {
    if (locked_) bytes({0xf0});
    if (fs) bytes({0x64});
    bytes({0xc4, 0x82 | (x ? 0 : 0x40) | (b ? 0 : 0x20), (~vvvv & 15) << 3 | pp, opcode});
  }

  void emit(const TileStep& s) {
    static constexpr int kDotPrefix[] = {3, 2, 1, 0, 2, 3};
    switch (s.op) {
      case TileOp::kLoadConfig:
        return emit_config(s);
      case TileOp::kStoreConfig:
        return emit_memory(s, 1, 0, 0x49);
      case TileOp::kRelease:
        vex(0, 0, false, false, 0x49);
        return bytes({0xc0});
      case TileOp::kZero:
        vex(3, 0, false, false, 0x49);
        return bytes({0xc0 | s.tile << 3});
      case TileOp::kLoad:
        return emit_memory(s, s.streamed ? 1 : 3, s.tile, 0x4b);
      case TileOp::kStore:
        return emit_memory(s, 2, s.tile, 0x4b);
      case TileOp::kDot:
        vex(kDotPrefix[static_cast<int>(s.dot)], s.b, false, false,
            s.dot == Dot::kBF16PS || s.dot == Dot::kFP16PS ? 0x5c : 0x5e);
        return bytes({0xc0 | s.tile << 3 | s.a});
    }
  }

  // The configuration is written by the program itself, or lies behind a jump.
  void emit_config(const TileStep& s) {
    std::uint8_t raw[64];
    std::memcpy(raw, &s.config, 64);
    if (s.form.base == AddressForm::Base::kInstruction) {
      bytes({0xeb, 64});  // jmp
      code_.insert(code_.end(), raw, raw + 64);
      vex(0, 0, false, false, 0x49);
      bytes({0x05});
      return word(static_cast<std::uint32_t>(-(64 + 9 + (locked_ ? 1 : 0))));
    }
    for (int i = 0; i < 8; ++i) {
      std::uint64_t part = 0;
      std::memcpy(&part, raw + 8 * i, 8);
      move(0, part);
      move(1, memory_ + static_cast<std::uint64_t>(s.offset) + 8 * static_cast<std::uint64_t>(i));
      bytes({0x48, 0x89, 0x01});  // mov [rcx], rax
    }
    emit_memory(s, 0, 0, 0x49);
  }

  void emit_memory(const TileStep& s, int pp, int reg, int opcode) {
    using Base = AddressForm::Base;
    AddressForm f = s.form;
    const bool rows = opcode == 0x4b;
    std::uint64_t address = memory_ + static_cast<std::uint64_t>(s.offset);
    if (f.base == Base::kInstruction) f.base = Base::kRegister;
    // As an offset an index is a small number; as a distance of rows it is what it must be.
    const std::int64_t index = rows ? s.stride >> f.scale : 8 * f.scale;
    if (!rows && f.index_register >= 0) address -= static_cast<std::uint64_t>(index) << f.scale;
    if (f.base == Base::kStack) {
      f.displacement_bytes = s.offset == 0 ? 0 : s.offset < 128 ? 1 : 4;
      f.displacement = static_cast<std::int32_t>(s.offset);
    } else if (f.base == Base::kNone) {
      f.displacement_bytes = 4;
      f.displacement = static_cast<std::int32_t>(address);
    } else {
      if (f.displacement_bytes == 0 && (f.base_register & 7) == 5) f.displacement_bytes = 1;
      if (f.fs) address -= fs_;
      move(f.base_register, address - static_cast<std::uint64_t>(std::int64_t{f.displacement}));
    }
    if (f.index_register >= 0) move(f.index_register, static_cast<std::uint64_t>(index));
    const bool none = f.base == Base::kNone;
    const int base = none ? 5 : f.base_register, at = f.index_register < 0 ? 4 : f.index_register;
    const int mod = none ? 0 : f.displacement_bytes == 0 ? 0 : f.displacement_bytes == 1 ? 1 : 2;
    vex(pp, 0, at >= 8, base >= 8, opcode, f.fs);
    if (!rows && !none && f.index_register < 0 && (base & 7) != 4) {
      bytes({mod << 6 | reg << 3 | (base & 7)});
    } else {
      bytes({mod << 6 | reg << 3 | 4, f.scale << 6 | (at & 7) << 3 | (base & 7)});
    }
    if (f.displacement_bytes == 1) bytes({f.displacement & 0xff});
    if (f.displacement_bytes == 4) word(static_cast<std::uint32_t>(f.displacement));
  }

  const TileProgram& program_;
  bool locked_;
  std::uint64_t memory_, fs_ = 0;
  std::vector<std::uint8_t> code_;
};

}  // namespace

TileProgram random_tile_program(std::uint64_t seed, bool f16) { return Generator(seed, f16).run(); }

std::string to_text(const TileStep& s) {
  return fmt::format("op {} dot {} tiles {} {} {} offset {}{} stride {}", static_cast<int>(s.op),
                     static_cast<int>(s.dot), s.tile, s.a, s.b, s.offset,
                     s.on_stack ? " of the stack" : "", s.stride);
}

std::vector<std::uint8_t> assemble(const TileProgram& program, std::uint8_t* memory, bool locked) {
  return Assembler(program, memory, locked).run();
}

std::uint8_t* map_low(std::size_t bytes, bool executable) {
  void* const out = mmap(nullptr, bytes, PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0),
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  TESSERA_CHECK(out != MAP_FAILED, "no memory below 2 GiB");
  return static_cast<std::uint8_t*>(out);
}

}  // namespace tessera::testing
