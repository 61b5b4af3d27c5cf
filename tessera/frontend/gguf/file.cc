#include "tessera/frontend/gguf/file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"
#include "tessera/support/mapped_file.h"

namespace tessera::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr int kMostDimensions = 4;
constexpr int kDeepest = 4;  // arrays in arrays
// Of metadata: the largest vocabularies have a tenth. Each takes several times its bytes in memory.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 23;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";

// As the file numbers them.
enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
};

// The fewest bytes that a value of the type takes; 0: there is no such type.
std::uint64_t least_bytes(std::uint32_t type) {
  constexpr std::array<std::uint64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 0;
}

// One after the other. Nothing is read behind the end: what does not fit is an error.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  Result<T> number(const char* what) {
    T value{};
    if (left() < sizeof(T)) return ends(what);
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> text(const char* what) {
    TESSERA_TRY(const std::uint64_t size, number<std::uint64_t>(what));
    if (size > left()) return ends(what);
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }

  // Elements of arrays, and entries.
  Result<void> count(std::uint64_t more) {
    if (more > kMostElements - elements_)
      return invalid("metadata of more than {} elements", kMostElements);
    elements_ += more;
    return {};
  }

  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t at() const { return at_; }

 private:
  Error ends(const char* what) const {
    return invalid("the file ends within {} (at byte {} of {})", what, at_, bytes_.size());
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint64_t elements_ = 0;
};

template <class T>
Result<Value> read_number(Bytes& bytes) {
  TESSERA_TRY(const T v, bytes.number<T>("a value"));
  if constexpr (std::is_floating_point_v<T>) {
    return Value{static_cast<double>(v)};
  } else {
    if (!std::in_range<std::int64_t>(v)) return invalid("{} is too large", v);
    return Value{static_cast<std::int64_t>(v)};
  }
}

Result<Value> read_bool(Bytes& bytes) {
  TESSERA_TRY(const std::uint8_t v, bytes.number<std::uint8_t>("a value"));
  if (v > 1) return invalid("{} is not a bool", v);
  return Value{v == 1};
}

Result<Value> read_array(Bytes& bytes, int depth);

Result<Value> read_value(Bytes& bytes, std::uint32_t type, int depth) {
  switch (type) {
    case kU8:
      return read_number<std::uint8_t>(bytes);
    case kI8:
      return read_number<std::int8_t>(bytes);
    case kU16:
      return read_number<std::uint16_t>(bytes);
    case kI16:
      return read_number<std::int16_t>(bytes);
    case kU32:
      return read_number<std::uint32_t>(bytes);
    case kI32:
      return read_number<std::int32_t>(bytes);
    case kU64:
      return read_number<std::uint64_t>(bytes);
    case kI64:
      return read_number<std::int64_t>(bytes);
    case kF32:
      return read_number<float>(bytes);
    case kF64:
      return read_number<double>(bytes);
    case kBool:
      return read_bool(bytes);
    case kText: {
      TESSERA_TRY(const std::string_view text, bytes.text("a text"));
      return Value{text};
    }
    case kArray:
      return read_array(bytes, depth + 1);
    default:
      return invalid("no value type has the number {}", type);
  }
}

template <class T>
Result<Value> read_elements(Bytes& bytes, std::uint32_t type, std::uint64_t count, int depth) {
  std::vector<T> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    TESSERA_TRY(Value value, read_value(bytes, type, depth));
    if constexpr (std::is_same_v<T, Value>) {
      out.push_back(std::move(value));
    } else {
      out.push_back(std::get<T>(value.value));
    }
  }
  return Value{std::move(out)};
}

Result<Value> read_array(Bytes& bytes, int depth) {
  if (depth > kDeepest) return invalid("arrays nested more than {} deep", kDeepest);
  TESSERA_TRY(const auto type, bytes.number<std::uint32_t>("an array"));
  TESSERA_TRY(const auto count, bytes.number<std::uint64_t>("an array"));
  const std::uint64_t least = least_bytes(type);
  if (least == 0) return invalid("no value type has the number {}", type);
  if (count > bytes.left() / least)
    return invalid("an array of {} elements in {} bytes", count, bytes.left());
  TESSERA_DO(bytes.count(count));
  if (type == kArray) return read_elements<Value>(bytes, type, count, depth);
  if (type == kText) return read_elements<std::string_view>(bytes, type, count, depth);
  if (type == kBool) return read_elements<bool>(bytes, type, count, depth);
  if (type == kF32 || type == kF64) return read_elements<double>(bytes, type, count, depth);
  return read_elements<std::int64_t>(bytes, type, count, depth);
}

struct Placed {
  Tensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

Result<Placed> read_tensor(Bytes& bytes) {
  Placed out;
  Tensor& tensor = out.tensor;
  TESSERA_TRY(tensor.name, bytes.text("the name of a tensor"));
  const auto about = [&](const Error& error) {
    return Error(error).with_context(fmt::format("tensor '{}'", tensor.name));
  };
  TESSERA_TRY(const auto rank, bytes.number<std::uint32_t>("the table of tensors"));
  if (rank > kMostDimensions)
    return about(invalid("{} dimensions, {} at most", rank, kMostDimensions));
  for (std::uint32_t d = 0; d < rank; ++d) {
    TESSERA_TRY(const auto size, bytes.number<std::uint64_t>("the table of tensors"));
    if (!std::in_range<std::int64_t>(size)) return about(invalid("a dimension of {}", size));
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  TESSERA_TRY(const auto type, bytes.number<std::uint32_t>("the table of tensors"));
  TESSERA_TRY(out.offset, bytes.number<std::uint64_t>("the table of tensors"));
  tensor.type = find_block_type(type);
  if (tensor.type == nullptr)
    return about(make_error(ErrorCode::kUnsupported, "no element type has the number {}", type));
  const Result<std::int64_t> count = checked_elements(tensor.shape, DType::kF32);
  if (!count.ok()) return about(count.error());
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % tensor.type->elements != 0) {
    return about(
        invalid("rows of {} in {} blocks of {}", row, tensor.type->name, tensor.type->elements));
  }
  out.bytes = static_cast<std::uint64_t>(*count / tensor.type->elements * tensor.type->bytes);
  return out;
}

}  // namespace

class Parser {
 public:
  explicit Parser(std::string_view all) : all_(all), bytes_(all) {}

  Result<void> parse(File& file) {
    if (!is_gguf(all_)) return invalid("not a GGUF file");
    TESSERA_TRY([[maybe_unused]] const auto magic, bytes_.number<std::uint32_t>("the header"));
    TESSERA_TRY(const auto version, bytes_.number<std::uint32_t>("the header"));
    if (version != 2 && version != 3) {
      return make_error(ErrorCode::kUnsupported, "GGUF version {}{}", version,
                        version % 65536 == 0 ? ", of the other order of bytes" : "");
    }
    file.version_ = static_cast<int>(version);
    TESSERA_TRY(const auto tensors, bytes_.number<std::uint64_t>("the header"));
    TESSERA_TRY(const auto entries, bytes_.number<std::uint64_t>("the header"));
    TESSERA_DO(read_metadata(entries, file));
    return read_tensors(tensors, file);
  }

 private:
  Result<void> read_metadata(std::uint64_t entries, File& file) {
    for (std::uint64_t i = 0; i < entries; ++i) {
      TESSERA_DO(bytes_.count(1));
      TESSERA_TRY(const std::string_view key, bytes_.text("a key"));
      TESSERA_TRY(const auto type, bytes_.number<std::uint32_t>("a value"));
      Result<Value> value = read_value(bytes_, type, 0);
      if (!value.ok()) return value.error().with_context(fmt::format("'{}'", key));
      if (!file.metadata_.try_emplace(key, std::move(*value)).second)
        return invalid("the key '{}' is there twice", key);
    }
    return {};
  }

  Result<void> read_tensors(std::uint64_t count, File& file) {
    constexpr std::uint64_t kLeast = 24;  // length of the name, rank, type, offset
    if (count > bytes_.left() / kLeast)
      return invalid("{} tensors in {} bytes", count, bytes_.left());
    std::vector<Placed> placed;
    for (std::uint64_t i = 0; i < count; ++i) {
      TESSERA_TRY(Placed tensor, read_tensor(bytes_));
      placed.push_back(std::move(tensor));
    }
    TESSERA_TRY(const std::uint64_t alignment, alignment_of(file));
    TESSERA_DO(place(placed, alignment));
    for (Placed& p : placed) {
      if (!file.by_name_.try_emplace(p.tensor.name, file.tensors_.size()).second)
        return invalid("tensor '{}' is there twice", p.tensor.name);
      file.tensors_.push_back(std::move(p.tensor));
    }
    return {};
  }

  static Result<std::uint64_t> alignment_of(const File& file) {
    const auto entry = file.metadata_.find(kAlignmentKey);
    if (entry == file.metadata_.end()) return kDefaultAlignment;
    const auto* value = std::get_if<std::int64_t>(&entry->second.value);
    if (value == nullptr) return invalid("'{}' is not an integer", kAlignmentKey);
    const auto alignment = static_cast<std::uint64_t>(*value);
    if (alignment > (1 << 20) || !std::has_single_bit(alignment))
      return invalid("'{}': {} is not a power of two up to a million", kAlignmentKey, *value);
    return alignment;
  }

  // They lie behind the table, in any order, without overlap: so none of them is worth more memory
  // than the file.
  Result<void> place(std::vector<Placed>& tensors, std::uint64_t alignment) const {
    const std::uint64_t start = round_up(std::uint64_t{bytes_.at()}, alignment);
    const std::uint64_t room = start < all_.size() ? all_.size() - start : 0;
    std::ranges::stable_sort(tensors, {}, &Placed::offset);
    std::uint64_t end = 0;
    for (Placed& p : tensors) {
      const std::string_view name = p.tensor.name;
      if (p.offset % alignment != 0)
        return invalid("tensor '{}' starts at {}, no multiple of {}", name, p.offset, alignment);
      if (p.offset < end) return invalid("tensor '{}' overlaps another", name);
      if (p.offset > room || p.bytes > room - p.offset) {
        return invalid("tensor '{}': bytes {} to {} of {}", name, p.offset, p.offset + p.bytes,
                       room);
      }
      end = p.offset + p.bytes;
      if (p.bytes != 0) p.tensor.bytes = all_.substr(start + p.offset, p.bytes);
    }
    return {};
  }

  std::string_view all_;
  Bytes bytes_;
};

bool is_gguf(std::string_view bytes) { return bytes.starts_with(kMagic); }

Result<File> File::parse(std::string_view bytes, std::shared_ptr<const void> owner,
                         std::string name) {
  File file;
  file.name_ = std::move(name);
  file.owner_ = std::move(owner);
  if (const Result<void> read = Parser(bytes).parse(file); !read.ok())
    return read.error().with_context(file.name_);
  return file;
}

Result<File> File::open(const std::string& path) {
  TESSERA_TRY(MappedFile mapped, MappedFile::open(path));
  auto owner = std::make_shared<const MappedFile>(std::move(mapped));
  const std::string_view bytes = owner->bytes();
  return parse(bytes, std::move(owner), path);
}

Result<File> File::of(Contents contents) {
  File file;
  file.name_ = std::move(contents.name);
  file.owner_ = std::move(contents.owner);
  file.metadata_ = std::move(contents.metadata);
  file.tensors_ = std::move(contents.tensors);
  file.spelled_ = std::move(contents.spelled);
  if (file.tensors_.empty()) return invalid("{}: there are no tensors", file.name_);
  for (std::size_t i = 0; i < file.tensors_.size(); ++i) {
    const std::string_view name = file.tensors_[i].name;
    if (!file.by_name_.try_emplace(name, i).second)
      return invalid("{}: tensor '{}' is there twice", file.name_, file.spelled(name));
  }
  return file;
}

const Tensor* File::find_tensor(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

template <class T>
Result<const T*> File::find(std::string_view key, const char* kind) const {
  const auto at = metadata_.find(key);
  if (at == metadata_.end()) return invalid("{}: there is no '{}'", name_, spelled(key));
  const T* value = std::get_if<T>(&at->second.value);
  if (value == nullptr) return invalid("{}: '{}' is not {}", name_, spelled(key), kind);
  return value;
}

Result<std::int64_t> File::integer(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<std::int64_t>(key, "an integer"));
  return *value;
}

Result<double> File::number(std::string_view key) const {
  if (const auto whole = find<std::int64_t>(key, ""); whole.ok())
    return static_cast<double>(**whole);
  TESSERA_TRY(const auto* value, find<double>(key, "a number"));
  return *value;
}

Result<bool> File::flag(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<bool>(key, "true or false"));
  return *value;
}

Result<std::string_view> File::text(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<std::string_view>(key, "a text"));
  return *value;
}

Result<std::span<const std::int64_t>> File::integers(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<std::vector<std::int64_t>>(key, "a list of integers"));
  return std::span<const std::int64_t>(*value);
}

Result<std::span<const double>> File::numbers(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<std::vector<double>>(key, "a list of floats"));
  return std::span<const double>(*value);
}

Result<std::span<const std::string_view>> File::texts(std::string_view key) const {
  TESSERA_TRY(const auto* value, find<std::vector<std::string_view>>(key, "a list of texts"));
  return std::span<const std::string_view>(*value);
}

Result<std::int64_t> File::integer(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

Result<double> File::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

Result<bool> File::flag(std::string_view key, bool otherwise) const {
  return has(key) ? flag(key) : otherwise;
}

Result<std::string_view> File::text(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : otherwise;
}

Result<HostTensor> widened(const Tensor& tensor) {
  if (!tensor.type->readable()) {
    return make_error(ErrorCode::kUnsupported, "tensor '{}' has elements of type {}", tensor.name,
                      tensor.type->name);
  }
  HostTensor out(DType::kF32, tensor.shape);
  widen(*tensor.type, reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()),
        {out.as<float>(), static_cast<std::size_t>(out.size())});
  return out;
}

}  // namespace tessera::gguf
