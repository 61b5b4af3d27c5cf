#include "tessera/learn/dataset/text_column.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <unordered_map>

namespace tessera::dataset {
namespace {

constexpr char kSlot = '\x01';  // of a number
constexpr std::size_t kMostDigits = 18;

enum Column : std::uint64_t { kConstant, kCopy, kValues };

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Digits that are a number of their own (8, 2x4x1), not part of a name (conv_2, p1, i.0).
bool begins_number(std::string_view text, std::size_t at) {
  if (!is_digit(text[at])) return false;
  if (at == 0) return true;
  const char before = text[at - 1];
  if (before == 'x') return at > 1 && is_digit(text[at - 2]);
  return !is_word(before) && before != '.';
}

// A text as its words and its numbers.
struct Cut {
  std::vector<std::string> pieces;
  std::vector<std::uint64_t> numbers;
};

Cut cut(std::string_view text) {
  Cut out;
  std::string piece;
  bool decision = false;  // "name=value " is a piece; so is a line
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    if (begins_number(text, at)) {
      while (end < text.size() && is_digit(text[end])) ++end;
    }
    const std::size_t digits = end - at;
    // A number must read back as it was written.
    if (digits > 0 && digits <= kMostDigits && (text[at] != '0' || digits == 1)) {
      std::uint64_t value = 0;
      for (; at < end; ++at) value = 10 * value + static_cast<std::uint64_t>(text[at] - '0');
      out.numbers.push_back(value);
      piece += kSlot;
      continue;
    }
    const char c = text[at++];
    piece += c;
    decision = decision || c == '=';
    if (c != '\n' && !(c == ' ' && decision)) continue;
    out.pieces.push_back(std::move(piece));
    piece.clear();
    decision = false;
  }
  if (!piece.empty()) out.pieces.push_back(std::move(piece));
  return out;
}

class Writer {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
    bytes += static_cast<char>(value);
  }
  std::string bytes;
};

// Texts of the same pieces.
struct Table {
  std::size_t columns = 0;
  std::vector<std::uint64_t> values;  // row after row

  bool same(std::size_t a, std::size_t b) const {
    for (std::size_t r = 0; r < values.size(); r += columns) {
      if (values[r + a] != values[r + b]) return false;
    }
    return true;
  }
};

void write_table(const Table& table, Writer* writer) {
  for (std::size_t c = 0; c < table.columns; ++c) {
    bool constant = true;
    for (std::size_t r = 0; r < table.values.size() && constant; r += table.columns) {
      constant = table.values[r + c] == table.values[c];
    }
    if (constant) {
      writer->number(kConstant);
      writer->number(table.values[c]);
      continue;
    }
    std::size_t copy = 0;
    while (copy < c && !table.same(copy, c)) ++copy;
    writer->number(copy < c ? kCopy : kValues);
    if (copy < c) {
      writer->number(copy);
      continue;
    }
    for (std::size_t r = 0; r < table.values.size(); r += table.columns) {
      writer->number(table.values[r + c]);
    }
  }
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<std::uint64_t> number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  // A count of things that take at least a byte each.
  std::optional<std::size_t> count() {
    const auto value = number();
    if (!value || *value > bytes_.size()) return std::nullopt;
    return static_cast<std::size_t>(*value);
  }
  std::optional<std::string_view> text(std::size_t size) {
    if (size > bytes_.size() - at_) return std::nullopt;
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

Error damaged(const char* what) { return make_error(ErrorCode::kIo, "damaged texts: {}", what); }

class Unpacker {
 public:
  Unpacker(std::string_view bytes, std::size_t most) : in_(bytes), most_(most) {}

  Result<std::vector<std::string>> run() {
    TESSERA_DO(read_pieces());
    TESSERA_DO(read_shapes());
    TESSERA_DO(read_rows());
    for (std::size_t s = 0; s < shapes_.size(); ++s) TESSERA_DO(read_table(s));
    if (!in_.at_end()) return damaged("more than there should be");
    return write_texts();
  }

 private:
  struct Shape {
    std::vector<std::size_t> pieces;
    std::size_t slots = 0, rows = 0, next = 0;
    std::vector<std::vector<std::uint64_t>> columns;  // of one value: constant
    std::vector<std::size_t> source;                  // of a column: itself, or the one it copies
  };

  Result<void> read_pieces() {
    const auto count = in_.count();
    if (!count) return damaged("pieces");
    for (std::size_t i = 0; i < *count; ++i) {
      const auto size = in_.count();
      const auto text = size ? in_.text(*size) : std::nullopt;
      if (!text) return damaged("a piece");
      pieces_.emplace_back(*text);
      slots_.push_back(static_cast<std::size_t>(std::count(text->begin(), text->end(), kSlot)));
    }
    return {};
  }

  Result<void> read_shapes() {
    const auto count = in_.count();
    if (!count) return damaged("shapes");
    for (std::size_t i = 0; i < *count; ++i) {
      Shape& shape = shapes_.emplace_back();
      const auto size = in_.count();
      if (!size) return damaged("a shape");
      for (std::size_t p = 0; p < *size; ++p) {
        const auto piece = in_.number();
        if (!piece || *piece >= pieces_.size()) return damaged("a shape");
        shape.pieces.push_back(static_cast<std::size_t>(*piece));
        shape.slots += slots_[shape.pieces.back()];
      }
    }
    return {};
  }

  Result<void> read_rows() {
    const auto count = in_.count();
    if (!count) return damaged("texts");
    for (std::size_t i = 0; i < *count; ++i) {
      const auto shape = in_.number();
      if (!shape || *shape >= shapes_.size()) return damaged("a text");
      rows_.push_back(static_cast<std::size_t>(*shape));
      ++shapes_[rows_.back()].rows;
    }
    return {};
  }

  Result<void> read_table(std::size_t s) {
    Shape& shape = shapes_[s];
    for (std::size_t c = 0; c < shape.slots; ++c) {
      const auto kind = in_.number();
      std::vector<std::uint64_t>& column = shape.columns.emplace_back();
      shape.source.push_back(c);
      if (!kind || *kind > kValues) return damaged("a column");
      if (*kind == kCopy) {
        const auto from = in_.number();
        if (!from || *from >= c) return damaged("a copied column");
        shape.source[c] = shape.source[static_cast<std::size_t>(*from)];
        continue;
      }
      for (std::size_t n = *kind == kConstant ? 1 : shape.rows; n > 0; --n) {
        const auto value = in_.number();
        if (!value) return damaged("a number");
        column.push_back(*value);
      }
    }
    return {};
  }

  Result<std::vector<std::string>> write_texts() {
    std::vector<std::string> out;
    std::size_t bytes = 0;
    for (const std::size_t s : rows_) {
      Shape& shape = shapes_[s];
      const std::size_t row = shape.next++;
      std::string& text = out.emplace_back();
      std::size_t slot = 0;
      for (const std::size_t piece : shape.pieces) {
        for (const char c : pieces_[piece]) {
          if (c != kSlot) {
            text += c;
            continue;
          }
          const auto& column = shape.columns[shape.source[slot++]];
          text += fmt::format("{}", column[column.size() == 1 ? 0 : row]);
        }
        if (bytes + text.size() > most_) return damaged("too long");
      }
      bytes += text.size();
    }
    return out;
  }

  Reader in_;
  std::size_t most_;
  std::vector<std::string> pieces_;
  std::vector<std::size_t> slots_;  // of each piece
  std::vector<Shape> shapes_;
  std::vector<std::size_t> rows_;
};

}  // namespace

Result<std::string> pack_texts(const std::vector<std::string>& texts) {
  std::unordered_map<std::string, std::size_t> piece_numbers;
  std::vector<std::string> pieces;
  std::map<std::vector<std::size_t>, std::size_t> shape_numbers;
  std::vector<const std::vector<std::size_t>*> shapes;
  std::vector<Table> tables;
  std::vector<std::size_t> rows;
  for (const std::string& text : texts) {
    if (text.find(kSlot) != std::string::npos) {
      return make_error(ErrorCode::kInvalidArgument, "a text with control characters: {:.40}",
                        text);
    }
    Cut parts = cut(text);
    std::vector<std::size_t> shape;
    for (std::string& piece : parts.pieces) {
      const auto [at, added] = piece_numbers.try_emplace(piece, pieces.size());
      if (added) pieces.push_back(std::move(piece));
      shape.push_back(at->second);
    }
    const auto [at, added] = shape_numbers.try_emplace(std::move(shape), shapes.size());
    if (added) {
      shapes.push_back(&at->first);
      tables.push_back({parts.numbers.size(), {}});
    }
    rows.push_back(at->second);
    Table& table = tables[at->second];
    table.values.insert(table.values.end(), parts.numbers.begin(), parts.numbers.end());
  }
  Writer writer;
  writer.number(pieces.size());
  for (const std::string& piece : pieces) {
    writer.number(piece.size());
    writer.bytes += piece;
  }
  writer.number(shapes.size());
  for (const auto* shape : shapes) {
    writer.number(shape->size());
    for (const std::size_t piece : *shape) writer.number(piece);
  }
  writer.number(rows.size());
  for (const std::size_t shape : rows) writer.number(shape);
  for (const Table& table : tables) write_table(table, &writer);
  return std::move(writer.bytes);
}

Result<std::vector<std::string>> unpack_texts(std::string_view bytes, std::size_t most_bytes) {
  return Unpacker(bytes, most_bytes).run();
}

}  // namespace tessera::dataset
