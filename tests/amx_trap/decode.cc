#include "tests/amx_trap/decode.h"

#include <cstring>

namespace tessera::testing {
namespace {

constexpr std::uint8_t kVex3 = 0xc4, kMap0F38 = 2, kLock = 0xf0;
constexpr int kNoIndex = 4, kNoBase = 5;

enum Prefix : std::uint8_t { kNone, k66, kF3, kF2 };

class Decoder {
 public:
  Decoder(const std::uint8_t* code, const Registers& registers)
      : code_(code), at_(code), registers_(registers) {}

  std::optional<TileInstruction> run() {
    std::uint8_t byte = next();
    if (byte == kLock) byte = next();
    for (; is_segment(byte); byte = next())
      segment_ = byte == 0x64 ? registers_.fs : byte == 0x65 ? registers_.gs : 0;
    if (byte != kVex3) return std::nullopt;
    const std::uint8_t first = next(), second = next();
    r_ = (~first >> 7 & 1) << 3;
    x_ = (~first >> 6 & 1) << 3;
    b_ = (~first >> 5 & 1) << 3;
    vvvv_ = ~second >> 3 & 15;
    prefix_ = static_cast<Prefix>(second & 3);
    const bool w = second >> 7 != 0, l = (second >> 2 & 1) != 0;
    if ((first & 31) != kMap0F38 || w || l) return std::nullopt;
    const std::uint8_t opcode = next(), modrm = next();
    mod_ = modrm >> 6;
    reg_ = modrm >> 3 & 7;
    rm_ = modrm & 7;
    if (!decode(opcode)) return std::nullopt;
    out_.length = static_cast<int>(at_ - code_);
    if (relative_) out_.address += reinterpret_cast<std::uint64_t>(at_);
    out_.address += segment_;
    return out_;
  }

 private:
  // cs, ds, es and ss have no base.
  static bool is_segment(std::uint8_t byte) {
    return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x64 ||
           byte == 0x65;
  }

  bool decode(std::uint8_t opcode) {
    switch (opcode) {
      case 0x49:
        return mod_ == 3 ? decode_registers() : decode_config();
      case 0x4b:
        return decode_rows();
      case 0x5c:
        return decode_dot({}, {}, Dot::kBF16PS, Dot::kFP16PS);
      case 0x5e:
        return decode_dot(Dot::kBUUD, Dot::kBUSD, Dot::kBSUD, Dot::kBSSD);
      default:
        return false;
    }
  }

  bool decode_registers() {
    if (vvvv_ != 0 || r_ != 0 || b_ != 0 || rm_ != 0) return false;
    out_.tile = reg_;
    out_.op = prefix_ == kF2 ? TileOp::kZero : TileOp::kRelease;
    return prefix_ == kF2 || (prefix_ == kNone && reg_ == 0);
  }

  bool decode_config() {
    if (vvvv_ != 0 || reg_ != 0 || (prefix_ != kNone && prefix_ != k66)) return false;
    out_.op = prefix_ == k66 ? TileOp::kStoreConfig : TileOp::kLoadConfig;
    read_address();
    out_.address += static_cast<std::uint64_t>(out_.stride);  // here the index is one
    return true;
  }

  bool decode_rows() {
    if (vvvv_ != 0 || r_ != 0 || mod_ == 3 || rm_ != 4 || prefix_ == kNone) return false;
    out_.op = prefix_ == kF3 ? TileOp::kStore : TileOp::kLoad;
    out_.tile = reg_;
    read_address();
    return true;
  }

  bool decode_dot(std::optional<Dot> none, std::optional<Dot> k66_dot, Dot f3, Dot f2) {
    const std::optional<Dot> dot = prefix_ == kNone ? none
                                   : prefix_ == k66 ? k66_dot
                                   : prefix_ == kF3 ? f3
                                                    : f2;
    if (!dot || mod_ != 3 || r_ != 0 || b_ != 0 || vvvv_ >= kTiles) return false;
    out_.op = TileOp::kDot;
    out_.dot = *dot;
    out_.tile = reg_;
    out_.a = rm_;
    out_.b = vvvv_;
    return true;
  }

  // Base and displacement into the address, the scaled index into the stride.
  void read_address() {
    int base = rm_ | b_;
    bool has_base = true;
    if (rm_ == 4) {
      const std::uint8_t sib = next();
      const int index = (sib >> 3 & 7) | x_;
      base = (sib & 7) | b_;
      if (index != kNoIndex)
        out_.stride = static_cast<std::int64_t>(registers_.general[index] << (sib >> 6));
      has_base = mod_ != 0 || (sib & 7) != kNoBase;
    } else if (mod_ == 0 && rm_ == kNoBase) {
      has_base = false;
      relative_ = true;
    }
    if (has_base) out_.address = registers_.general[base];
    if (mod_ == 1) out_.address += static_cast<std::uint64_t>(displacement<std::int8_t>());
    if (mod_ == 2 || !has_base)
      out_.address += static_cast<std::uint64_t>(displacement<std::int32_t>());
  }

  std::uint8_t next() { return *at_++; }
  template <class T>
  std::int64_t displacement() {
    T out;
    std::memcpy(&out, at_, sizeof(T));
    at_ += sizeof(T);
    return out;
  }

  const std::uint8_t* code_;
  const std::uint8_t* at_;
  const Registers& registers_;
  Prefix prefix_ = kNone;
  int mod_ = 0, reg_ = 0, rm_ = 0;
  int r_ = 0, x_ = 0, b_ = 0, vvvv_ = 0;  // upper bits of the registers: 8 or 0
  bool relative_ = false;                 // to the next instruction
  std::uint64_t segment_ = 0;
  TileInstruction out_;
};

}  // namespace

std::optional<TileInstruction> decode_tile_instruction(const std::uint8_t* code,
                                                       const Registers& registers) {
  return Decoder(code, registers).run();
}

}  // namespace tessera::testing
