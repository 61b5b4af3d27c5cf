#include "tests/amx_trap/amx_trap.h"

#ifdef __x86_64__

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <cpuid.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/amx_trap/decode.h"
#include "tests/amx_trap/tiles.h"

namespace tessera::testing {
namespace {

// Of <asm/prctl.h>, which older headers lack.
constexpr int kGetFs = 0x1003, kGetGs = 0x1004, kRequestState = 0x1023, kTileData = 18;

// In the static block of the thread, where a handler may touch it at any time.
__attribute__((tls_model("initial-exec"))) thread_local Tiles tiles;
__attribute__((tls_model("initial-exec"))) thread_local bool follows = false;  // the processor's
struct sigaction previous;
std::atomic<std::int64_t> executed = 0;
bool emulated = false;

Registers registers_of(const ucontext_t& context) {
  static constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15};
  Registers out{};
  for (std::size_t i = 0; i < std::size(kOrder); ++i)
    out.general[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  syscall(SYS_arch_prctl, kGetFs, &out.fs);
  syscall(SYS_arch_prctl, kGetGs, &out.gs);
  return out;
}

const char* execute(const TileInstruction& i) {
  auto* const address = reinterpret_cast<char*>(i.address);  // NOLINT: given as a number
  switch (i.op) {
    case TileOp::kLoadConfig:
      follows = false;
      return tiles.configure(address);
    case TileOp::kStoreConfig:
      tiles.store_config(address);
      return nullptr;
    case TileOp::kRelease:
      tiles.release();
      return nullptr;
    case TileOp::kZero:
      return tiles.zero(i.tile);
    case TileOp::kLoad:
      return tiles.load(i.tile, address, i.stride);
    case TileOp::kStore:
      return tiles.store(i.tile, address, i.stride);
    case TileOp::kDot:
      return tiles.dot(i.dot, i.tile, i.a, i.b);
  }
  return nullptr;
}

// The bytes of the tile configuration in the state that the kernel saved and will restore, and the
// bit that says whether they count; nothing on processors without AMX.
struct SavedConfig {
  std::uint8_t* bytes = nullptr;
  std::uint64_t* present = nullptr;
};

constexpr std::uint64_t kConfigBit = 1U << 17;

SavedConfig saved_config(const ucontext_t& context) {
  constexpr std::uint32_t kMagic = 0x46505853;
  constexpr std::size_t kMagicAt = 464, kFeaturesAt = 472, kHeaderAt = 512;
  auto* const state = reinterpret_cast<std::uint8_t*>(context.uc_mcontext.fpregs);
  std::uint32_t magic = 0;
  std::uint64_t features = 0;
  if (state == nullptr) return {};
  std::memcpy(&magic, state + kMagicAt, sizeof(magic));
  std::memcpy(&features, state + kFeaturesAt, sizeof(features));
  if (magic != kMagic || (features & kConfigBit) == 0) return {};
  unsigned size = 0, offset = 0, c = 0, d = 0;
  if (__get_cpuid_count(0xd, 17, &size, &offset, &c, &d) == 0 || size != sizeof(TileConfig))
    return {};
  return {state + offset, reinterpret_cast<std::uint64_t*>(state + kHeaderAt)};
}

// Processors with AMX need no permission for ldtilecfg and tilerelease: only what touches the data
// raises SIGILL. A start row that no program has marks a configuration that the tiles follow
// already; sttilecfg shows it.
void follow_processor(const ucontext_t& context) {
  constexpr std::uint8_t kFollowed = 255;
  const SavedConfig saved = saved_config(context);
  if (saved.bytes == nullptr) return;
  TileConfig config{};
  if ((*saved.present & kConfigBit) != 0) std::memcpy(&config, saved.bytes, sizeof(config));
  if (config.palette == 0 ? !follows : config.start_row == kFollowed) return;
  tiles.configure(&config);
  follows = config.palette != 0;
  if (follows) saved.bytes[offsetof(TileConfig, start_row)] = kFollowed;
}

// As if there had never been a handler of ours.
void chain(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;  // by a process; else the instruction raises it again
  if (previous.sa_handler == SIG_IGN && sent) return;
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  std::signal(signal, SIG_DFL);
  if (sent) raise(signal);
}

void complain(const char* why) {
  for (const std::string_view part : {"amx_trap: the processor refuses ", why, "\n"}) {
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) return;
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  auto& interrupted = *static_cast<ucontext_t*>(context);
  auto& next = interrupted.uc_mcontext.gregs[REG_RIP];
  if (info->si_code <= 0) return chain(signal, info, context);  // sent by a process
  const auto found = decode_tile_instruction(reinterpret_cast<const std::uint8_t*>(next),  // NOLINT
                                             registers_of(interrupted));
  if (!found) return chain(signal, info, context);
  if (found->op != TileOp::kLoadConfig && found->op != TileOp::kStoreConfig)
    follow_processor(interrupted);
  if (const char* why = execute(*found)) {
    complain(why);
    return chain(signal, info, context);
  }
  next += found->length;
  executed.fetch_add(1, std::memory_order_relaxed);
}

// The handler may be interrupted by itself: a handler of faults in it may leave by a jump. It runs
// on the stack for signals of threads that have one.
bool install() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGILL, &action, &previous) == 0;
}

// Programs ask for the permission before they use tiles: the answer is yes. Where the kernel has no
// such filters, they hear the truth.
void grant_requests() {
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  // To the last statement, so many below, unless it is `value`.
  const auto require = [](std::uint32_t value, std::uint8_t below) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, below);
  };
  sock_filter filter[] = {
      load(offsetof(seccomp_data, nr)),
      require(SYS_arch_prctl, 5),
      load(offsetof(seccomp_data, args[0])),
      require(kRequestState, 3),
      load(offsetof(seccomp_data, args[1])),
      require(kTileData, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & (kBf16 | kTile | kInt8)) == (kBf16 | kTile | kInt8);
}

bool is_forced() {
  const char* forced = std::getenv("TESSERA_AMX_TRAP");
  return forced != nullptr && std::string_view(forced) == "1";
}

bool enable() {
  if (!is_forced() && processor_has_amx() && syscall(SYS_arch_prctl, kRequestState, kTileData) == 0)
    return true;
  if (!install()) return false;
  // A process that got the permission before executes this without the handler: ldtilecfg [rax],
  // tilezero tmm0, tilerelease.
  const TileConfig one{.palette = 1, .row_bytes = {4}, .rows = {1}};
  __asm__ volatile(
      ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00, 0xc4, 0xe2, 0x7b, 0x49, 0xc0, 0xc4, 0xe2, 0x78, 0x49, "
      "0xc0"
      :
      : "a"(&one)
      : "memory");
  emulated = executed > 0;
  tiles.release();
  follows = false;
  if (emulated) grant_requests();
  return true;
}

}  // namespace

bool enable_amx() {
  static const bool enabled = enable();
  return enabled;
}

bool amx_is_emulated() { return emulated; }

std::int64_t emulated_amx_instructions() { return executed; }

namespace {

// Before the program asks for the permission, which it could not give back.
[[maybe_unused]] const bool enabled_at_start = is_forced() && enable_amx();

}  // namespace
}  // namespace tessera::testing

#else

namespace tessera::testing {

bool enable_amx() { return false; }
bool amx_is_emulated() { return false; }
std::int64_t emulated_amx_instructions() { return 0; }

}  // namespace tessera::testing

#endif
