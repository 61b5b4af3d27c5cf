#include "tessera/learn/graphset/wire.h"

namespace tessera::graphset {
namespace {

Error broken(const char* what) {
  return make_error(ErrorCode::kInvalidArgument, "protobuf: {}", what);
}

class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}

  bool done() const { return left_.empty(); }

  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return broken("cut off in a number");
      const auto byte = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return broken("a number of more than ten bytes");
  }

  Result<std::string_view> take(std::uint64_t size) {
    if (size > left_.size()) return broken("cut off");
    const std::string_view out = left_.substr(0, size);
    left_.remove_prefix(size);
    return out;
  }

  Result<std::uint64_t> fixed(std::size_t size) {
    TESSERA_TRY(const std::string_view bytes, take(size));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return value;
  }

 private:
  std::string_view left_;
};

Result<WireField> next_field(Cursor& cursor) {
  TESSERA_TRY(const std::uint64_t tag, cursor.varint());
  WireField field;
  field.id = static_cast<std::uint32_t>(tag >> 3);
  if (field.id == 0 || tag >> 32 != 0) return broken("not a message");
  switch (tag & 7) {
    case 0: {
      TESSERA_TRY(field.number, cursor.varint());
      return field;
    }
    case 1: {
      TESSERA_TRY(field.number, cursor.fixed(8));
      return field;
    }
    case 2: {
      field.is_bytes = true;
      TESSERA_TRY(const std::uint64_t size, cursor.varint());
      TESSERA_TRY(field.bytes, cursor.take(size));
      return field;
    }
    case 5: {
      TESSERA_TRY(field.number, cursor.fixed(4));
      return field;
    }
    default:
      return broken("not a message");
  }
}

}  // namespace

Result<std::vector<WireField>> wire_fields(std::string_view message) {
  Cursor cursor(message);
  std::vector<WireField> fields;
  while (!cursor.done()) {
    TESSERA_TRY(const WireField field, next_field(cursor));
    fields.push_back(field);
  }
  return fields;
}

Result<void> append_integers(const WireField& field, std::vector<std::int64_t>* out) {
  if (!field.is_bytes) {
    out->push_back(field.integer());
    return {};
  }
  Cursor cursor(field.bytes);
  while (!cursor.done()) {
    TESSERA_TRY(const std::uint64_t value, cursor.varint());
    out->push_back(static_cast<std::int64_t>(value));
  }
  return {};
}

}  // namespace tessera::graphset
