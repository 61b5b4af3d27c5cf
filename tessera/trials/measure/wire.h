// Messages between the processes of a measurer: plain structs, bytes, frames on a socket.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tessera::measure {

// A struct becomes a message by `template <class A> void fields(A& a, Struct& s) { a(s.x, s.y); }`
// in its namespace. Both ends are the same program, so the byte order is that of the machine.
class Encoder {
 public:
  template <class... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      fields(*this, value);
    }
  }
  void put(std::string& text) {
    std::uint64_t size = text.size();
    put(size);
    bytes_ += text;
  }
  template <class T>
  void put(std::vector<T>& items) {
    std::uint64_t size = items.size();
    put(size);
    for (T& item : items) put(item);
  }

  std::string bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  // All bytes were there and none is left over.
  bool ok() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      const std::string_view raw = take(sizeof(value));
      if (raw.size() == sizeof(value)) std::memcpy(&value, raw.data(), sizeof(value));
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    std::uint64_t size = 0;
    get(size);
    text = take(size);
  }
  template <class T>
  void get(std::vector<T>& items) {
    std::uint64_t size = 0;
    get(size);
    items.clear();
    for (std::uint64_t i = 0; i < size && ok_; ++i) get(items.emplace_back());
  }

  std::string_view bytes_;
  bool ok_ = true;
};

enum class Kind : std::uint8_t {
  kSubmit,    // owner -> server: Job
  kCancel,    // owner -> server: Cancel
  kMeasured,  // server -> owner: Measured
  kBuild,     // server -> build worker: Job
  kBuilt,     // build worker -> server: Built
  kRun,       // server -> run worker: RunRequest
  kCalling,   // run worker -> server: Calling: about to call a candidate for the first time
  kTiming,    // run worker -> server: Calling: its result is right, samples follow
  kRan,       // run worker -> server: RunReply
  kTarget,    // who asks a driver -> owner: Answer
};

struct Frame {
  Kind kind = Kind::kSubmit;
  std::string body;
};

template <class T>
std::string encode(T message) {
  Encoder encoder;
  fields(encoder, message);
  return encoder.take();
}

template <class T>
bool decode(const Frame& frame, T* message) {
  Decoder decoder(frame.body);
  fields(decoder, *message);
  return decoder.ok();
}

// One end of a stream socket that carries frames; closes it. Interrupted and partial transfers are
// carried on, a dead peer is an end of stream, never a signal.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd) : fd_(fd) {}
  ~Channel() { close(); }
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) noexcept;

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();

  // Blocking. False when the peer is gone.
  bool send(Kind kind, const std::string& body);
  // Blocking; nullopt when the peer is gone.
  std::optional<Frame> receive();

  // For poll loops: enqueue() writes what the socket takes now, flush() more of the rest, fill()
  // reads what is there and next() gives the complete frames in it. False: the peer is gone.
  bool enqueue(Kind kind, const std::string& body);
  bool flush();
  bool wants_to_write() const { return !out_.empty(); }
  bool fill();
  std::optional<Frame> next();

 private:
  bool read_some(int flags, bool* would_block);

  int fd_ = -1;
  std::string in_, out_;
  std::size_t consumed_ = 0;  // of in_
};

}  // namespace tessera::measure
