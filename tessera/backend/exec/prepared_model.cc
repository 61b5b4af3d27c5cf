#include "tessera/backend/exec/prepared_model.h"

#include <bit>

#include "tessera/backend/exec/share_constants.h"
#include "tessera/backend/kernel/binary_bytes.h"
#include "tessera/frontend/graph/op.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::exec {
namespace {

using graph::AttrValue;
using graph::TensorType;

constexpr std::size_t kAlignment = CacheEntry::kAlignment;

// With at least one byte more, as HostTensor has.
std::size_t padded(std::size_t bytes) { return (bytes + kAlignment) / kAlignment * kAlignment; }

// Of a constant of an entry. Without a digest it lies in the entry.
struct ConstantPlace {
  TensorType type;
  std::string digest;
};

class ModelWriter {
 public:
  // `digests`: by constant, as ConstantPlace has it.
  void model(const PreparedModel& prepared, const std::vector<runtime::Binary>& code,
             const std::vector<std::string>& digests) {
    const CompiledModel& m = prepared.model;
    each(prepared.sources, [&](const PreparedModel::Source& s) {
      bytes_.text(s.path);
      bytes_.text(s.digest);
    });
    texts(prepared.warnings);
    bytes_.text(m.name);
    bytes_.text(m.digest);
    texts(m.input_names);
    texts(m.output_names);
    each(m.input_types, [&](const TensorType& t) { type(t); });
    each(m.output_types, [&](const TensorType& t) { type(t); });
    each(m.steps, [&](const CompiledModel::Step& s) { step(s); });
    each(m.copies, [&](const CompiledModel::Copy& c) {
      storage(c.from);
      size(c.output);
    });
    each(m.index_checks, [&](const IndexCheck& c) { index_check(c); });
    for (const std::int64_t n : {m.arena_bytes, m.live_bytes, m.constant_bytes}) bytes_.number(n);
    each(code, [&](const runtime::Binary& b) { kernel::write_binary(bytes_, b); });
    size(m.constants.size());
    for (std::size_t i = 0; i < m.constants.size(); ++i) {
      type({m.constants[i].dtype(), m.constants[i].shape()});
      bytes_.text(digests[i]);
    }
  }
  const std::string& bytes() const { return bytes_.bytes(); }

 private:
  void size(std::size_t n) { bytes_.number(static_cast<std::int64_t>(n)); }
  void real(double v) { bytes_.number(std::bit_cast<std::int64_t>(v)); }
  template <class List, class Write>
  void each(const List& list, const Write& write) {
    size(list.size());
    for (const auto& item : list) write(item);
  }
  void texts(const std::vector<std::string>& list) {
    each(list, [&](const std::string& t) { bytes_.text(t); });
  }
  void numbers(const std::vector<std::int64_t>& list) {
    each(list, [&](std::int64_t n) { bytes_.number(n); });
  }
  void type(const TensorType& t) {
    bytes_.number(static_cast<std::int64_t>(t.dtype));
    numbers(t.shape);
  }
  void storage(const Storage& s) {
    bytes_.number(static_cast<std::int64_t>(s.place));
    size(s.index);
    bytes_.number(s.offset);
    bytes_.number(s.bytes);
  }
  void attribute(const AttrValue& value) {
    size(value.index());
    if (const auto* n = std::get_if<std::int64_t>(&value)) {
      bytes_.number(*n);
    } else if (const auto* v = std::get_if<double>(&value)) {
      real(*v);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      bytes_.text(*text);
    } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&value)) {
      numbers(*ints);
    } else {
      each(std::get<std::vector<double>>(value), [&](double d) { real(d); });
    }
  }
  void step(const CompiledModel::Step& s) {
    bytes_.number(static_cast<std::int64_t>(s.kind));
    size(s.kernel);
    each(s.params, [&](const Storage& p) { storage(p); });
    size(s.reads);
    bytes_.text(s.name);
    bytes_.text(s.origin);
    real(s.flops);
    real(s.bytes);
    bytes_.text(s.op ? s.op->name : "");
    each(s.attrs.items(), [&](const auto& item) {
      bytes_.text(item.first);
      attribute(item.second);
    });
    each(s.input_types, [&](const TensorType& t) { type(t); });
    each(s.output_types, [&](const TensorType& t) { type(t); });
    each(s.omitted, [&](bool omitted) { bytes_.number(omitted ? 1 : 0); });
    each(s.indices, [&](const auto& indices) {
      size(indices.first);
      bytes_.number(indices.second.value);
      type(indices.second.type);
      index_check(indices.second.what);
    });
  }
  void index_check(const IndexCheck& c) {
    size(c.input);
    numbers(c.sizes);
    bytes_.text(c.node);
  }

  ByteWriter bytes_;
};

// The bytes are those that ModelWriter wrote: the checksum of the entry says so, and its key that
// this very build did. Lengths are checked all the same.
class ModelReader {
 public:
  explicit ModelReader(std::string_view bytes) : bytes_(bytes) {}

  void model(const target::Target& target, PreparedModel* prepared,
             std::vector<runtime::Binary>* code, std::vector<ConstantPlace>* constants) {
    CompiledModel& m = prepared->model;
    m.target = target;
    each(&prepared->sources, [&](PreparedModel::Source& s) {
      s.path = bytes_.text();
      s.digest = bytes_.text();
    });
    texts(&prepared->warnings);
    m.name = bytes_.text();
    m.digest = bytes_.text();
    texts(&m.input_names);
    texts(&m.output_names);
    each(&m.input_types, [&](TensorType& t) { type(t); });
    each(&m.output_types, [&](TensorType& t) { type(t); });
    each(&m.steps, [&](CompiledModel::Step& s) { step(s); });
    each(&m.copies, [&](CompiledModel::Copy& c) {
      storage(c.from);
      c.output = size();
    });
    each(&m.index_checks, [&](IndexCheck& c) { index_check(&c); });
    for (std::int64_t* n : {&m.arena_bytes, &m.live_bytes, &m.constant_bytes}) *n = bytes_.number();
    each(code, [&](runtime::Binary& b) { kernel::read_binary(bytes_, target, &b); });
    each(constants, [&](ConstantPlace& c) {
      type(c.type);
      c.digest = bytes_.text();
    });
  }
  bool finished() const { return bytes_.finished(); }

 private:
  std::size_t size() { return static_cast<std::size_t>(bytes_.number()); }
  double real() { return std::bit_cast<double>(bytes_.number()); }
  template <class T, class Read>
  void each(std::vector<T>* list, const Read& read) {
    for (std::int64_t n = bytes_.number(); n > 0 && bytes_.ok(); --n) {
      list->emplace_back();
      read(list->back());
    }
  }
  void texts(std::vector<std::string>* list) {
    each(list, [&](std::string& t) { t = bytes_.text(); });
  }
  void numbers(std::vector<std::int64_t>* list) {
    each(list, [&](std::int64_t& n) { n = bytes_.number(); });
  }
  void type(TensorType& t) {
    t.dtype = static_cast<DType>(bytes_.number());
    numbers(&t.shape);
  }
  void storage(Storage& s) {
    s.place = static_cast<Place>(bytes_.number());
    s.index = size();
    s.offset = bytes_.number();
    s.bytes = bytes_.number();
  }
  AttrValue attribute() {
    switch (bytes_.number()) {
      case 0:
        return bytes_.number();
      case 1:
        return real();
      case 2:
        return std::string(bytes_.text());
      case 3: {
        std::vector<std::int64_t> list;
        numbers(&list);
        return list;
      }
      default: {
        std::vector<double> list;
        each(&list, [&](double& v) { v = real(); });
        return list;
      }
    }
  }
  void step(CompiledModel::Step& s) {
    s.kind = static_cast<task::GroupKind>(bytes_.number());
    s.kernel = size();
    each(&s.params, [&](Storage& p) { storage(p); });
    s.reads = size();
    s.name = bytes_.text();
    s.origin = bytes_.text();
    s.flops = real();
    s.bytes = real();
    const std::string_view op = bytes_.text();
    s.op = op.empty() ? nullptr : graph::find_op(op);
    for (std::int64_t n = bytes_.number(); n > 0 && bytes_.ok(); --n) {
      const std::string name(bytes_.text());
      s.attrs.set(name, attribute());
    }
    each(&s.input_types, [&](TensorType& t) { type(t); });
    each(&s.output_types, [&](TensorType& t) { type(t); });
    for (std::int64_t n = bytes_.number(); n > 0 && bytes_.ok(); --n)
      s.omitted.push_back(bytes_.number() != 0);
    each(&s.indices, [&](auto& indices) {
      indices.first = size();
      indices.second.value = static_cast<graph::ValueId>(bytes_.number());
      type(indices.second.type);
      index_check(&indices.second.what);
    });
  }
  void index_check(IndexCheck* c) {
    c->input = size();
    numbers(&c->sizes);
    c->node = bytes_.text();
  }

  ByteReader bytes_;
};

std::string_view bytes_of(const HostTensor& constant) {
  return {constant.as<char>(), constant.bytes()};
}

std::string constant_key(const std::string& owner, const std::string& digest) {
  return fmt::format("constant {} of {}", digest, owner);
}

// Those that have a digest, each once; one that is there as it should be counts as
// used.
Result<void> store_constants(const DiskCache& cache, const std::string& owner,
                             const std::vector<HostTensor>& constants,
                             const std::vector<std::string>& digests) {
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (digests[i].empty()) continue;
    const std::string key = constant_key(owner, digests[i]);
    const std::optional<CacheEntry> there = open_entry(cache, key);
    if (there && there->answer.size() == constants[i].bytes()) continue;
    TESSERA_DO(store_entry(cache, key, {bytes_of(constants[i])}));
  }
  return {};
}

// A constant of a model that was found, from `rest` of its entry or from an entry of its own.
std::optional<HostTensor> open_constant(const DiskCache& cache, const std::string& owner,
                                        const ConstantPlace& place, std::string_view* rest) {
  if (static_cast<int>(place.type.dtype) >= kDTypes) return std::nullopt;
  const Result<std::int64_t> count = checked_elements(place.type.shape, place.type.dtype);
  if (!count.ok()) return std::nullopt;
  const auto bytes =
      static_cast<std::size_t>(*count) * static_cast<std::size_t>(size_bytes(place.type.dtype));
  const auto view = [&](std::shared_ptr<const void> owned, std::string_view in) {
    return HostTensor::view(place.type.dtype, place.type.shape, std::move(owned), in.data());
  };
  if (place.digest.empty()) {
    if (bytes > rest->size() || padded(bytes) > rest->size()) return std::nullopt;
    HostTensor out = view(nullptr, *rest);  // PreparedModel owns its entry
    rest->remove_prefix(padded(bytes));
    return out;
  }
  std::optional<CacheEntry> own = open_entry(cache, constant_key(owner, place.digest));
  if (!own || own->answer.size() != bytes) return std::nullopt;
  const auto entry = std::make_shared<const CacheEntry>(std::move(*own));
  HostTensor out = view(entry, entry->answer);
  if (!take_shared_constant(place.digest, &out)) offer_constant(place.digest, out);
  return out;
}

}  // namespace

// An entry: the length of the description, the description, then each small constant, aligned.
Result<Kept> store_prepared(const DiskCache& cache, const std::string& key,
                            const std::string& owner, const PreparedModel& prepared,
                            const std::vector<runtime::Binary>& code) {
  const std::vector<HostTensor>& constants = prepared.model.constants;
  std::vector<std::string> digests;
  digests.reserve(constants.size());
  for (const HostTensor& t : constants) digests.push_back(is_shared(t) ? constant_digest(t) : "");
  ModelWriter writer;
  writer.model(prepared, code, digests);
  ByteWriter head;
  head.text(writer.bytes());
  const std::string zeros(kAlignment, '\0');
  std::vector<std::string_view> parts;
  std::size_t total = 0;
  const auto add = [&](std::string_view bytes) {
    parts.push_back(bytes);
    parts.push_back(std::string_view(zeros).substr(0, padded(bytes.size()) - bytes.size()));
    total += padded(bytes.size());
  };
  add(head.bytes());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (digests[i].empty()) {
      add(bytes_of(constants[i]));
    } else {
      total += padded(constants[i].bytes());
    }
  }
  const std::optional<kernel::DiskSpace> disk = kernel::disk_space(cache.folder());
  Kept out;
  out.bytes = static_cast<std::int64_t>(total);
  out.of_cache = cache.limit_bytes() / kPartOfCache;
  out.of_disk = disk ? disk->available / kPartOfDisk : out.bytes;
  if (!out.kept()) return out;
  TESSERA_DO(store_constants(cache, owner, constants, digests));
  TESSERA_DO(store_entry(cache, key, parts));
  cache.trim();
  return out;
}

std::optional<PreparedModel> find_prepared(const DiskCache& cache, const std::string& key,
                                           const std::string& owner, const target::Target& target) {
  if (key.empty()) return std::nullopt;
  std::optional<CacheEntry> entry = open_entry(cache, key);
  if (!entry) return std::nullopt;
  PreparedModel out;
  out.entry = std::make_unique<const CacheEntry>(std::move(*entry));
  std::string_view rest = out.entry->answer;
  const std::string_view description = ByteReader(rest).text();
  ModelReader reader(description);
  std::vector<runtime::Binary> code;
  std::vector<ConstantPlace> constants;
  reader.model(target, &out, &code, &constants);
  if (!reader.finished()) return std::nullopt;
  const std::size_t head = padded(sizeof(std::int64_t) + description.size());
  if (head > rest.size()) return std::nullopt;
  rest.remove_prefix(head);
  for (const ConstantPlace& place : constants) {
    std::optional<HostTensor> constant = open_constant(cache, owner, place, &rest);
    if (!constant) return std::nullopt;
    out.model.constants.push_back(std::move(*constant));
  }
  for (const runtime::Binary& binary : code) {
    Result<std::unique_ptr<runtime::CpuKernel>> kernel = runtime::load_kernel(binary);
    if (!kernel.ok()) return std::nullopt;
    out.model.kernels.push_back(std::move(*kernel));
  }
  out.model.cached_kernels = static_cast<std::int64_t>(code.size());
  return out;
}

}  // namespace tessera::exec
