#include "tessera/frontend/onnx/payloads.h"

#include <cstdint>
#include <set>

namespace tessera::onnx {
namespace {

// Messages that tensors may lie in. Numbers of fields are those of tessera_onnx.proto.
enum class Kind : std::uint8_t { kModel, kGraph, kNode, kAttribute, kFunction, kTensor, kOther };

constexpr std::uint64_t kRawData = 9, kRawPlace = 536870911;
constexpr int kMaxNesting = 100;

struct Child {
  Kind kind = Kind::kOther;
  bool repeated = true;
};

Child child_of(Kind parent, std::uint64_t field) {
  switch (parent) {
    case Kind::kModel:
      if (field == 7) return {Kind::kGraph, false};
      if (field == 25) return {Kind::kFunction};
      return {};
    case Kind::kGraph:
      if (field == 1) return {Kind::kNode};
      if (field == 5) return {Kind::kTensor};
      return {};
    case Kind::kNode:
      return field == 5 ? Child{Kind::kAttribute} : Child{};
    case Kind::kAttribute:
      if (field == 5) return {Kind::kTensor, false};
      if (field == 6) return {Kind::kGraph, false};
      if (field == 10) return {Kind::kTensor};
      return {};
    case Kind::kFunction:
      if (field == 7) return {Kind::kNode};
      if (field == 11) return {Kind::kAttribute};
      return {};
    default:
      return {};
  }
}

void write_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void write_message(std::string& out, std::uint64_t field, std::string_view bytes) {
  write_varint(out, field << 3 | 2);
  write_varint(out, bytes.size());
  out += bytes;
}

class Stripper {
 public:
  explicit Stripper(std::string_view whole) : whole_(whole) {}

  // Appends `bytes`, a part of the whole. False: they are not in the usual form.
  bool message(std::string_view bytes, Kind kind, int depth, std::string& out) {
    if (depth > kMaxNesting) return false;
    std::set<std::uint64_t> seen;  // of fields that occur once
    while (!bytes.empty()) {
      const std::string_view from = bytes;
      std::uint64_t tag = 0;
      if (!varint(bytes, tag)) return false;
      const std::uint64_t field = tag >> 3;
      std::string_view content;
      if (!skip(bytes, tag & 7, content)) return false;
      const std::string_view all = from.substr(0, from.size() - bytes.size());
      if (kind == Kind::kTensor) {
        if (field == kRawPlace || (field == kRawData && !seen.insert(field).second)) return false;
        if (field == kRawData && (tag & 7) == 2 && content.size() >= kLeastPayload) {
          refer_to(content, out);
          continue;
        }
      }
      const Child child = (tag & 7) == 2 ? child_of(kind, field) : Child{};
      if (!child.repeated && !seen.insert(field).second) return false;
      // Nothing large lies in something small.
      if (child.kind == Kind::kOther || content.size() < kLeastPayload) {
        out += all;
        continue;
      }
      std::string inner;
      if (!message(content, child.kind, depth + 1, inner)) return false;
      write_message(out, field, inner);
    }
    return true;
  }

  bool found() const { return found_; }

 private:
  static bool varint(std::string_view& bytes, std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes[0]);
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  // Over a field of this wire type; `content` is what a length stands before.
  static bool skip(std::string_view& bytes, std::uint64_t wire, std::string_view& content) {
    std::uint64_t size = wire == 1 ? 8 : 4;
    if (wire == 0) return varint(bytes, size);
    if (wire != 1 && wire != 2 && wire != 5) return false;
    if (wire == 2 && !varint(bytes, size)) return false;
    if (size > bytes.size()) return false;
    content = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return true;
  }

  void refer_to(std::string_view content, std::string& out) {
    const auto begin = static_cast<std::uint64_t>(content.data() - whole_.data());
    std::string place;
    write_varint(place, 1 << 3);
    write_varint(place, begin);
    write_varint(place, 2 << 3);
    write_varint(place, begin + content.size());
    write_message(out, kRawPlace, place);
    found_ = true;
  }

  std::string_view whole_;
  bool found_ = false;
};

}  // namespace

std::optional<std::string> without_payloads(std::string_view model) {
  Stripper stripper(model);
  std::string out;
  if (!stripper.message(model, Kind::kModel, 0, out) || !stripper.found()) return std::nullopt;
  return out;
}

}  // namespace tessera::onnx
