#include "tessera/support/npz.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/support/files.h"
#include "tessera/support/zip.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyType {
  DType dtype;
  std::string_view code;  // without the byte order
};

constexpr std::array kTypes = {
    NumpyType{DType::kBool, "b1"},
    NumpyType{DType::kI8, "i1"},
    NumpyType{DType::kU8, "u1"},
    NumpyType{DType::kI16, "i2"},
    NumpyType{DType::kU16, "u2"},
    NumpyType{DType::kI32, "i4"},
    NumpyType{DType::kU32, "u4"},
    NumpyType{DType::kI64, "i8"},
    NumpyType{DType::kU64, "u8"},
    NumpyType{DType::kF16, "f2"},
    NumpyType{DType::kBF16, "V2"},
    NumpyType{DType::kF32, "f4"},
    NumpyType{DType::kF64, "f8"},
    // Of floats of one byte NumPy has bytes only: they are written, and not read back.
    NumpyType{DType::kF8E4M3, "V1"},
    NumpyType{DType::kF8E5M2, "V1"},
};

Error broken(const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, "npy: {}", what);
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// Reads the Python dictionary of the header: three known keys, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    TESSERA_DO(expect('{'));
    while (!next_is('}')) {
      TESSERA_TRY(const std::string key, quoted());
      TESSERA_DO(expect(':'));
      if (key == "descr") {
        // A list of fields, as structured arrays have, is not a quoted string.
        if (next_is('[')) return make_error(ErrorCode::kUnsupported, "npy: structured array");
        TESSERA_TRY(header.descr, quoted());
        descr = true;
      } else if (key == "fortran_order") {
        TESSERA_TRY(header.fortran_order, boolean());
        order = true;
      } else if (key == "shape") {
        TESSERA_TRY(header.shape, tuple());
        shape = true;
      } else {
        return broken(fmt::format("unknown key '{}' in the header", key));
      }
      if (!accept(',')) break;
    }
    TESSERA_DO(expect('}'));
    if (!descr || !order || !shape) return broken("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool next_is(char c) {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  Result<void> expect(char c) {
    if (accept(c)) return {};
    return broken(fmt::format("header: '{}' expected at byte {}", c, at_));
  }
  bool accept_word(std::string_view word) {
    skip_spaces();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Result<std::string> quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return broken("header: a quoted string is expected");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return broken("header: a string does not end");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }

  Result<bool> boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    return broken("header: fortran_order must be True or False");
  }

  Result<Shape> tuple() {
    TESSERA_DO(expect('('));
    Shape shape;
    while (!next_is(')')) {
      std::int64_t d = 0;
      const char* end = text_.data() + text_.size();
      const auto parsed = std::from_chars(text_.data() + at_, end, d);
      if (parsed.ec != std::errc()) return broken("header: bad shape");
      at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
      accept_word("L");  // written by Python 2
      shape.push_back(d);
      if (!accept(',')) break;
    }
    TESSERA_DO(expect(')'));
    if (shape.size() > 64) return broken("more than 64 dimensions");
    return shape;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

// Splits a file into header text and data.
Result<std::pair<std::string_view, std::string_view>> split(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return broken("not a .npy file");
  const int version = bytes[6];
  if (version < 1 || version > 3) {
    return make_error(ErrorCode::kUnsupported, "npy: format version {}", version);
  }
  const std::size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) return broken("cut off");
  const std::uint32_t length = little_endian(bytes.substr(8, start - 8));
  if (length > bytes.size() - start) return broken("cut off in the header");
  return std::pair{bytes.substr(start, length), bytes.substr(start + length)};
}

std::optional<DType> find_type(std::string_view code) {
  for (const NumpyType& t : kTypes) {
    if (t.code == code && code != "V1") return t.dtype;
  }
  return std::nullopt;
}

void swap_bytes(HostTensor& tensor) {
  const auto size = static_cast<std::size_t>(size_bytes(tensor.dtype()));
  auto* bytes = tensor.as<std::uint8_t>();
  for (std::size_t i = 0; i < tensor.bytes(); i += size) {
    std::reverse(bytes + i, bytes + i + size);
  }
}

// `data` has the first index running fastest.
void copy_fortran(std::string_view data, HostTensor& tensor) {
  const Shape& shape = tensor.shape();
  const auto size = static_cast<std::size_t>(size_bytes(tensor.dtype()));
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * shape[d - 1];
  Shape index(shape.size(), 0);
  std::int64_t from = 0;
  auto* to = tensor.as<std::uint8_t>();
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    std::memcpy(to + static_cast<std::size_t>(i) * size,
                data.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

struct Located {
  DType dtype = DType::kF32;
  Shape shape;
  std::string_view data;
  bool fortran_order = false;  // and that makes a difference
  bool swapped = false;
};

Result<Located> locate(std::string_view bytes) {
  TESSERA_TRY(const auto parts, split(bytes));
  const auto [text, data] = parts;
  TESSERA_TRY(const Header header, HeaderParser(text).parse());
  const std::string_view descr = header.descr;
  const std::optional<DType> dtype = descr.empty() ? std::nullopt : find_type(descr.substr(1));
  if (!dtype || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) {
    return make_error(ErrorCode::kUnsupported, "npy: element type '{}'", descr.substr(0, 64));
  }
  TESSERA_TRY(const std::int64_t count, checked_elements(header.shape, *dtype));
  const auto wanted =
      static_cast<std::size_t>(count) * static_cast<std::size_t>(size_bytes(*dtype));
  if (data.size() != wanted) {
    return broken(fmt::format("{} bytes of data where {} {} takes {}", data.size(), to_text(*dtype),
                              to_text(header.shape), wanted));
  }
  return Located{*dtype, header.shape, data, header.fortran_order && header.shape.size() > 1,
                 descr[0] == '>' && size_bytes(*dtype) > 1};
}

std::string_view without_suffix(std::string_view name) {
  if (name.ends_with(".npy")) name.remove_suffix(4);
  return name;
}

}  // namespace

Result<HostTensor> parse_npy(std::string_view bytes) {
  TESSERA_TRY(const Located array, locate(bytes));
  HostTensor tensor(array.dtype, array.shape);
  if (array.fortran_order) {
    copy_fortran(array.data, tensor);
  } else if (!array.data.empty()) {
    std::memcpy(tensor.data(), array.data.data(), array.data.size());
  }
  if (array.swapped) swap_bytes(tensor);
  return tensor;
}

Result<std::vector<NpyView>> view_npz(std::string_view bytes) {
  TESSERA_TRY(const std::vector<ZipView> entries, view_zip(bytes));
  std::vector<NpyView> views;
  for (const ZipView& entry : entries) {
    const Result<Located> array = locate(entry.bytes);
    if (!array) return array.error().with_context(entry.name);
    const auto size = static_cast<std::uintptr_t>(size_bytes(array->dtype));
    const bool aligned = reinterpret_cast<std::uintptr_t>(array->data.data()) % size == 0;
    if (array->fortran_order || array->swapped || !aligned) {
      return make_error(ErrorCode::kUnsupported, "{}: npy: cannot be read in place", entry.name);
    }
    views.push_back(
        {std::string(without_suffix(entry.name)), array->dtype, array->shape, array->data.data()});
  }
  return views;
}

std::string npy_bytes(const HostTensor& tensor) {
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const NumpyType& t) { return t.dtype == tensor.dtype(); });
  const char order = size_bytes(tensor.dtype()) == 1 ? '|' : '<';
  const Shape& shape = tensor.shape();
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order,
                  type->code, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // Data starts at a multiple of 64 bytes; rank 64 still fits the 16-bit length of version 1.
  const std::size_t start = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(start - 10 - header.size() - 1, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
          static_cast<char>(header.size() >> 8)};
  out += header;
  out.append(tensor.as<char>(), tensor.bytes());
  return out;
}

Result<NamedTensors> parse_npz(std::string_view bytes) {
  TESSERA_TRY(const std::vector<ZipEntry> entries, parse_zip(bytes));
  NamedTensors tensors;
  for (const ZipEntry& entry : entries) {
    Result<HostTensor> tensor = parse_npy(entry.bytes);
    if (!tensor.ok()) return tensor.error().with_context(entry.name);
    tensors.push_back({std::string(without_suffix(entry.name)), std::move(*tensor)});
  }
  return tensors;
}

Result<NamedTensors> read_npz(const std::string& path) {
  TESSERA_TRY(const std::string bytes, read_file(path));
  Result<NamedTensors> tensors = parse_npz(bytes);
  if (!tensors.ok()) return tensors.error().with_context(path);
  return tensors;
}

Result<HostTensor> read_npy(const std::string& path) {
  TESSERA_TRY(const std::string bytes, read_file(path));
  Result<HostTensor> tensor = parse_npy(bytes);
  if (!tensor.ok()) return tensor.error().with_context(path);
  return tensor;
}

Result<void> write_npz(const std::string& path, const NamedTensors& tensors, bool compress) {
  std::vector<ZipEntry> entries;
  for (const NamedTensor& t : tensors) {
    for (const ZipEntry& other : entries) {
      if (without_suffix(other.name) == t.name) {
        return make_error(ErrorCode::kInvalidArgument, "{}: two tensors named '{}'", path, t.name);
      }
    }
    if (t.name.size() > 0xff00) return broken("a name is too long");
    entries.push_back({t.name + ".npy", npy_bytes(t.tensor)});
  }
  // Data starts at a multiple of 64 bytes within an entry, and so in the file.
  return write_file(path, {zip_bytes(entries, {.compress = compress, .alignment = 64})});
}

Result<void> write_npy(const std::string& path, const HostTensor& tensor) {
  return write_file(path, {npy_bytes(tensor)});
}

}  // namespace tessera
