#include "tessera/learn/lm/shard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <zlib.h>

#include "tessera/learn/lm/columns.h"

namespace tessera::lm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tessera sentences 1\n";
constexpr std::string_view kSuffix = ".sentences";
constexpr std::size_t kBlock = 1 << 20;
// A subject may make a block longer than kBlock; nothing makes it this long.
constexpr std::uint32_t kMostBlock = 1 << 28;
constexpr std::uint32_t kMostRatio = 1032;  // of zlib
constexpr int kLevel = 1;                   // of zlib: blocks are made as fast as sentences
constexpr char kSubjectTag = 'S', kSentenceTag = 'A';
enum Legal : std::uint8_t { kAll, kRange, kBits };

class Put {
 public:
  explicit Put(std::string* out) : out_(*out) {}

  void byte(std::uint8_t b) { out_.push_back(static_cast<char>(b)); }
  void number(std::size_t n) {
    for (; n >= 128; n >>= 7) byte(static_cast<std::uint8_t>(n | 128));
    byte(static_cast<std::uint8_t>(n));
  }
  void number(std::int32_t n) { number(static_cast<std::size_t>(n)); }
  void text(const std::string& s) {
    number(s.size());
    out_ += s;
  }
  // Multiples of kUnit.
  void small(float x) {
    const auto n = static_cast<std::uint16_t>(static_cast<std::int16_t>(std::lrint(x / kUnit)));
    byte(static_cast<std::uint8_t>(n));
    byte(static_cast<std::uint8_t>(n >> 8));
  }

 private:
  std::string& out_;
};

// Reading beyond the end gives zeros and is remembered.
class Get {
 public:
  Get(std::string_view in, std::size_t at) : in_(in), at_(at) {}

  bool ok() const { return ok_; }
  std::size_t at() const { return at_; }
  std::uint8_t byte() {
    if (at_ < in_.size()) return static_cast<std::uint8_t>(in_[at_++]);
    ok_ = false;
    return 0;
  }
  std::size_t number() {
    std::size_t out = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const std::uint8_t b = byte();
      out |= static_cast<std::size_t>(b & 127) << shift;
      if (b < 128) return out;
    }
    ok_ = false;
    return 0;
  }
  // Of things that take so many bytes at least: more than are left is damage, not memory.
  std::size_t count(std::size_t bytes = 1) {
    const std::size_t n = number();
    if (n <= (in_.size() - at_) / bytes) return n;
    ok_ = false;
    return 0;
  }
  std::string text() {
    const std::size_t n = count();
    std::string out(in_.substr(at_, n));
    at_ += n;
    return out;
  }
  float small() {
    const int low = byte();
    return static_cast<float>(static_cast<std::int16_t>(low | byte() << 8)) * kUnit;
  }

 private:
  std::string_view in_;
  std::size_t at_;
  bool ok_ = true;
};

void put_subject(const Subject& s, Put& put) {
  for (const std::string* text : {&s.task, &s.reduction, &s.machine, &s.sketch}) put.text(*text);
  put.number(s.prompt.size());
  for (const Word& w : s.prompt) {
    for (const float x : w) put.small(x);
  }
  put.number(s.questions.size());
  for (const Question& q : s.questions) {
    for (const float x : q.word) put.small(x);
    put.number(q.values.size());
    // Column by column: neighbours in a list are alike.
    for (std::size_t c = 0; c < kValueNumbers; ++c) {
      for (const Value& v : q.values) put.small(v[c]);
    }
  }
}

Subject get_subject(Get& get) {
  Subject s;
  for (std::string* text : {&s.task, &s.reduction, &s.machine, &s.sketch}) *text = get.text();
  s.prompt.resize(get.count(std::size_t{2} * kWordNumbers));
  for (Word& w : s.prompt) {
    for (float& x : w) x = get.small();
  }
  s.questions.resize(get.count(std::size_t{2} * kWordNumbers));
  for (Question& q : s.questions) {
    for (float& x : q.word) x = get.small();
    q.values.resize(get.count(std::size_t{2} * kValueNumbers));
    for (std::size_t c = 0; c < kValueNumbers; ++c) {
      for (Value& v : q.values) v[c] = get.small();
    }
  }
  return s;
}

void put_legal(const std::vector<std::int32_t>& legal, std::size_t values, Put& put) {
  if (legal.size() == values) return put.byte(kAll);
  if (static_cast<std::size_t>(legal.back() - legal.front()) + 1 == legal.size()) {
    put.byte(kRange);
    put.number(legal.front());
    return put.number(legal.size());
  }
  put.byte(kBits);
  std::vector<std::uint8_t> bits((values + 7) / 8);
  for (const std::int32_t v : legal) {
    bits[static_cast<std::size_t>(v) / 8] |= static_cast<std::uint8_t>(1 << (v % 8));
  }
  for (const std::uint8_t b : bits) put.byte(b);
}

// False: damaged.
bool get_legal(std::size_t values, Get& get, std::vector<std::int32_t>* out) {
  out->clear();
  std::size_t first = 0, count = values;
  switch (get.byte()) {
    case kAll:
      break;
    case kRange:
      first = get.number();
      count = get.number();
      if (first >= values || count > values - first) return false;
      break;
    case kBits:
      for (std::size_t at = 0; at < values; at += 8) {
        for (unsigned bits = get.byte(); bits != 0; bits &= bits - 1) {
          const std::size_t v = at + static_cast<std::size_t>(std::countr_zero(bits));
          if (v >= values) return false;
          out->push_back(static_cast<std::int32_t>(v));
        }
      }
      return true;
    default:
      return false;
  }
  for (std::size_t v = first; v < first + count; ++v) out->push_back(static_cast<std::int32_t>(v));
  return true;
}

bool get_sentence(const std::vector<Subject>& subjects, Get& get, Sentence* out) {
  const std::size_t subject = get.number();
  if (!get.ok() || subject >= subjects.size()) return false;
  out->subject = static_cast<std::int32_t>(subject);
  const std::size_t quality = get.number();  // 0: unknown
  out->quality = quality == 0 ? kUnknownQuality : static_cast<float>(quality - 1) * kUnit / 16;
  const std::vector<Question>& questions = subjects[subject].questions;
  const std::size_t count = get.count(3);
  if (count > questions.size()) return false;  // none is asked twice
  out->answers.resize(count);
  for (Answer& a : out->answers) {
    const std::size_t question = get.number(), taken = get.number();
    if (!get.ok() || question >= questions.size()) return false;
    a.question = static_cast<std::int32_t>(question);
    a.taken = static_cast<std::int32_t>(taken);
    if (!get_legal(questions[question].values.size(), get, &a.legal)) return false;
    if (!std::binary_search(a.legal.begin(), a.legal.end(), a.taken)) return false;
  }
  return get.ok();
}

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Little-endian, as everywhere in these files.
void put_u32(std::uint32_t n, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(n >> (8 * i)));
}
std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < 4; ++i)
    n |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  return n;
}

constexpr std::size_t kBlockHeader = 12;  // length, compressed length, checksum of what follows

}  // namespace

Result<ShardWriter> ShardWriter::create(const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << kMagic << schema() << std::flush;
  if (!out) return make_error(ErrorCode::kIo, "{}: cannot be written", path);
  return ShardWriter(path, std::move(out));
}

Result<std::int32_t> ShardWriter::add(const Subject& subject) {
  Put put(&block_);
  put.byte(kSubjectTag);
  put_subject(subject, put);
  std::vector<std::int32_t> counts;
  for (const Question& q : subject.questions)
    counts.push_back(static_cast<std::int32_t>(q.values.size()));
  value_counts_.push_back(std::move(counts));
  if (block_.size() >= kBlock) TESSERA_DO(end_block());
  return static_cast<std::int32_t>(value_counts_.size() - 1);
}

Result<void> ShardWriter::add(const Sentence& sentence) {
  const auto subject = static_cast<std::size_t>(sentence.subject);
  TESSERA_CHECK(subject < value_counts_.size(), "a sentence about subject {} of {}",
                sentence.subject, value_counts_.size());
  Put put(&block_);
  put.byte(kSentenceTag);
  put.number(subject);
  const float quality = std::clamp(sentence.quality, 0.0f, 1.0f);
  put.number(sentence.quality < 0 ? std::size_t{0}
                                  : 1 + static_cast<std::size_t>(std::lrint(quality / kUnit * 16)));
  put.number(sentence.answers.size());
  for (const Answer& a : sentence.answers) {
    put.number(a.question);
    put.number(a.taken);
    put_legal(
        a.legal,
        static_cast<std::size_t>(value_counts_[subject].at(static_cast<std::size_t>(a.question))),
        put);
  }
  ++sentences_;
  if (block_.size() >= kBlock) TESSERA_DO(end_block());
  return {};
}

Result<void> ShardWriter::end_block() {
  if (block_.empty()) return {};
  uLongf size = compressBound(static_cast<uLong>(block_.size()));
  std::string packed(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                             reinterpret_cast<const Bytef*>(block_.data()),
                             static_cast<uLong>(block_.size()), kLevel);
  TESSERA_CHECK(code == Z_OK, "zlib: {}", code);
  packed.resize(size);
  std::string header;
  put_u32(static_cast<std::uint32_t>(block_.size()), &header);
  put_u32(static_cast<std::uint32_t>(packed.size()), &header);
  put_u32(crc_of(packed), &header);
  out_ << header << packed;
  block_.clear();
  if (!out_) return make_error(ErrorCode::kIo, "{}: cannot be written", path_);
  return {};
}

Result<void> ShardWriter::flush() {
  TESSERA_DO(end_block());
  if (!out_.flush()) return make_error(ErrorCode::kIo, "{}: cannot be written", path_);
  return {};
}

Result<ShardReader> ShardReader::open(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string header(kMagic.size() + schema().size(), '\0');
  if (!in || !in.read(header.data(), static_cast<std::streamsize>(header.size())) ||
      !header.starts_with(kMagic.substr(0, kMagic.find('1')))) {
    return make_error(ErrorCode::kIo, "{}: no file of sentences", path);
  }
  if (!header.starts_with(kMagic)) {
    return make_error(ErrorCode::kUnsupported, "{}: sentences of another version", path);
  }
  if (!header.ends_with(schema())) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: its words are of schema {}, those of this program of {}: make it again",
                      path, header.substr(kMagic.size()), schema());
  }
  return ShardReader(path, std::move(in));
}

Error ShardReader::damaged() const { return make_error(ErrorCode::kIo, "{}: damaged", path_); }

Result<bool> ShardReader::read_block() {
  std::string header(kBlockHeader, '\0');
  in_.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (in_.gcount() < static_cast<std::streamsize>(header.size())) {
    torn_ = in_.gcount() > 0;
    return false;
  }
  const std::uint32_t raw = get_u32(header), packed = get_u32(std::string_view(header).substr(4));
  if (raw > kMostBlock || packed > kMostBlock || raw / kMostRatio > packed) return damaged();
  // What is not there takes no memory.
  const std::streampos here = in_.tellg();
  const std::streamoff left = in_.seekg(0, std::ios::end).tellg() - here;
  in_.seekg(here);
  std::string bytes(left < static_cast<std::streamoff>(packed) ? 0 : packed, '\0');
  in_.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (bytes.size() < packed || in_.gcount() < static_cast<std::streamsize>(bytes.size())) {
    torn_ = true;
    return false;
  }
  if (crc_of(bytes) != get_u32(std::string_view(header).substr(8))) return damaged();
  block_.resize(raw);
  uLongf size = raw;
  const int code =
      uncompress(reinterpret_cast<Bytef*>(block_.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  if (code != Z_OK || size != raw) return damaged();
  at_ = 0;
  return true;
}

Result<bool> ShardReader::next(Sentence* out) {
  for (;;) {
    if (at_ >= block_.size()) {
      TESSERA_TRY(const bool more, read_block());
      if (!more) return false;
      continue;
    }
    Get get(block_, at_);
    const auto tag = static_cast<char>(get.byte());
    const bool sentence = tag == kSentenceTag;
    if (sentence) {
      if (!get_sentence(subjects_, get, out)) return damaged();
    } else {
      if (tag != kSubjectTag) return damaged();
      subjects_.push_back(get_subject(get));
      if (!get.ok()) return damaged();
    }
    at_ = get.at();
    if (sentence) return true;
  }
}

std::string shard_path(const std::string& folder, std::size_t number) {
  return (fs::path(folder) / fmt::format("{:04}{}", number, kSuffix)).string();
}

Result<std::vector<std::string>> shards_of(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kSuffix) out.push_back(entry.path().string());
  }
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder, error.message());
  if (out.empty()) return make_error(ErrorCode::kIo, "{}: holds no sentences", folder);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tessera::lm
