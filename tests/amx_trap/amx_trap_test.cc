// Random programs on the processor, where it has AMX, by the handler, and by plain loops. Every
// test has processes of its own: the permission and the handler are for good.
#include "tests/amx_trap/amx_trap.h"

#include <cmath>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/dtype.h"
#include "tests/amx_trap/tile_program.h"
#include "tests/amx_trap/tile_reference.h"

namespace tessera::testing {
namespace {

constexpr int kPrograms = 400;

enum class Who { kProcessor, kHandler };

void enable(Who who) {
  if (who == Who::kHandler) {
    setenv("TESSERA_AMX_TRAP", "1", 1);
  } else {
    unsetenv("TESSERA_AMX_TRAP");
  }
  if (!enable_amx()) _exit(2);
}

// What `body` returns in a process where AMX is executed by `who`; else how that ended. `before`
// is called before the handler is installed.
std::string in_process(
    Who who, const std::function<std::string()>& body,
    const std::function<void()>& before = [] {}) {
  constexpr std::size_t kLength = 4096;
  void* const shared =
      mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no shared memory";
  const pid_t child = fork();
  if (child == 0) {
    before();
    enable(who);
    const std::string said =
        amx_is_emulated() == (who == Who::kHandler) ? body() : "executed by the other";
    std::memcpy(shared, said.c_str(), std::min(said.size() + 1, kLength - 1));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::string out = static_cast<const char*>(shared);
  munmap(shared, kLength);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? out : "failed";
}

bool processor_has_amx() {
  return in_process(Who::kProcessor, [] { return std::string(); }).empty();
}

void call(const std::vector<std::uint8_t>& code, std::uint8_t* executable) {
  std::memcpy(executable, code.data(), code.size());
  reinterpret_cast<void (*)()>(executable)();  // NOLINT: it is code
}

// Where the handler executes AMX: whether the processor executes ldtilecfg without it.
bool processor_configures() {
  std::uint8_t* const memory = map_low(kMemoryBytes, false);
  TileProgram program;
  program.steps = {{.op = TileOp::kLoadConfig}};
  const std::int64_t before = emulated_amx_instructions();
  call(assemble(program, memory, false), map_low(1 << 16, true));
  return emulated_amx_instructions() == before;
}

// Empty, or the first program whose memory is not that of the loops.
std::string compare(std::uint64_t first, int count, bool locked, bool marked, bool f16) {
  std::uint8_t* const memory = map_low(kMemoryBytes, false);
  std::uint8_t* const executable = map_low(1 << 18, true);
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    const TileProgram program = random_tile_program(seed, f16);
    std::memcpy(memory, program.memory.data(), kMemoryBytes);
    call(assemble(program, memory, locked), executable);
    const std::vector<std::uint8_t> want = run_reference(program, marked);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (memory[i] != want[i])
        return fmt::format("program {}: byte {} is {}, not {}", seed, i, memory[i], want[i]);
    }
  }
  return "";
}

TEST(AmxTrap, TheProcessorAgreesWithTheLoops) {
  if (!processor_has_amx()) GTEST_SKIP() << "this processor or kernel has no AMX";
  EXPECT_EQ(in_process(Who::kProcessor, [] { return compare(1, kPrograms, false, false, false); }),
            "");
}

// All instructions, those included that a processor with AMX executes without permission.
TEST(AmxTrap, TheHandlerAgreesWithTheLoops) {
  EXPECT_EQ(in_process(Who::kHandler, [] { return compare(1, kPrograms, true, false, false); }),
            "");
  EXPECT_EQ(in_process(Who::kHandler, [] { return compare(9001, kPrograms, true, false, true); }),
            "");
  if (!processor_has_amx())
    GTEST_SKIP() << "compared with plain loops only: this processor or kernel has no AMX";
}

// Programs as compilers write them.
TEST(AmxTrap, TheHandlerFollowsConfigurationsOfTheProcessor) {
  EXPECT_EQ(in_process(Who::kHandler,
                       [] { return compare(1, kPrograms, false, processor_configures(), false); }),
            "");
}

TEST(AmxTrap, ThreadsHaveTilesOfTheirOwn) {
  EXPECT_EQ(in_process(Who::kHandler,
                       [&] {
                         const bool marked = processor_configures();
                         std::string out[4];
                         std::vector<std::thread> threads;
                         for (std::size_t t = 0; t < 4; ++t) {
                           threads.emplace_back([&, t] {
                             out[t] = compare(20'000 + 1000 * t, 100, t % 2 == 0,
                                              t % 2 == 1 && marked, false);
                           });
                         }
                         for (std::thread& t : threads) t.join();
                         return out[0] + out[1] + out[2] + out[3];
                       }),
            "");
}

TileStep config_step(const std::function<void(TileConfig&)>& change) {
  TileStep out{.op = TileOp::kLoadConfig};
  out.config.palette = 1;
  for (int t = 0; t < kTiles; ++t) {
    out.config.rows[t] = 4;
    out.config.row_bytes[t] = 16;
  }
  change(out.config);
  return out;
}

TileStep dot_step(int sum, int a, int b) {
  return {.op = TileOp::kDot, .tile = sum, .a = a, .b = b};
}

// A step after a configuration in which all tiles have 4 rows of 16 bytes, but for `change`.
struct Refused {
  const char* why;
  std::function<void(TileConfig&)> change;
  std::vector<TileStep> steps;
};

std::vector<Refused> refused() {
  const TileStep load{.op = TileOp::kLoad, .tile = 3}, store{.op = TileOp::kStore, .tile = 3},
      zero{.op = TileOp::kZero, .tile = 3}, release{.op = TileOp::kRelease};
  const auto none = [](TileConfig&) {};
  const auto without = [](TileConfig& c) { c.rows[3] = 0, c.row_bytes[3] = 0; };
  return {
      {"a palette other", [](TileConfig& c) { c.palette = 2; }, {}},
      {"reserved bytes", [](TileConfig& c) { c.zero[13] = 1; }, {}},
      {"reserved bytes", [](TileConfig& c) { c.row_bytes[8] = 4; }, {}},
      {"reserved bytes", [](TileConfig& c) { c.rows[15] = 1; }, {}},
      {"more than 64 bytes", [](TileConfig& c) { c.row_bytes[7] = 65; }, {}},
      {"more than 16 rows", [](TileConfig& c) { c.rows[0] = 17; }, {}},
      {"rows or bytes only", [](TileConfig& c) { c.rows[2] = 0; }, {}},
      {"rows or bytes only", [](TileConfig& c) { c.row_bytes[2] = 0; }, {}},
      {"no configuration", [](TileConfig& c) { c.palette = 0; }, {zero}},
      {"no configuration", none, {release, load}},
      {"not configured", without, {load}},
      {"not configured", without, {store}},
      {"not configured", without, {zero}},
      {"not configured", without, {dot_step(0, 1, 3)}},
      {"multiples of 4 bytes", [](TileConfig& c) { c.row_bytes[3] = 15; }, {load}},
      {"multiples of 4 bytes", [](TileConfig& c) { c.row_bytes[3] = 15; }, {store}},
      {"multiples of 4 bytes", [](TileConfig& c) { c.row_bytes[3] = 15; }, {dot_step(0, 3, 1)}},
      {"start row", [](TileConfig& c) { c.start_row = 4; }, {load}},
      {"start row", [](TileConfig& c) { c.start_row = 4; }, {store}},
      {"named twice", none, {dot_step(1, 1, 2)}},
      {"named twice", none, {dot_step(1, 2, 1)}},
      {"named twice", none, {dot_step(1, 2, 2)}},
      {"different rows", [](TileConfig& c) { c.rows[0] = 5; }, {dot_step(0, 1, 2)}},
      {"different columns", [](TileConfig& c) { c.row_bytes[0] = 20; }, {dot_step(0, 1, 2)}},
      {"different lengths", [](TileConfig& c) { c.row_bytes[1] = 20; }, {dot_step(0, 1, 2)}},
  };
}

void run_refused(const Refused& r, bool locked) {
  std::uint8_t* const memory = map_low(kMemoryBytes, false);
  TileProgram program;
  program.steps.push_back(config_step(r.change));
  program.steps.insert(program.steps.end(), r.steps.begin(), r.steps.end());
  call(assemble(program, memory, locked), map_low(1 << 16, true));
}

TEST(AmxTrap, RefusesWhatTheProcessorRefuses) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const bool processor = processor_has_amx();
  for (const Refused& r : refused()) {
    SCOPED_TRACE(r.why);
    EXPECT_EXIT(
        {
          enable(Who::kHandler);
          run_refused(r, true);
        },
        ::testing::KilledBySignal(SIGILL), r.why);
    if (!processor) continue;
    const std::string ended = in_process(Who::kProcessor, [&] {
      run_refused(r, false);
      return std::string("was executed");
    });
    EXPECT_EQ(ended, r.steps.empty() ? "signal 11" : "signal 4");
  }
  if (!processor) GTEST_SKIP() << "by the handler only: this processor or kernel has no AMX";
}

// One dot of bf16 pairs whose second elements are zero.
float dot_of(float sum, const std::vector<float>& x, const std::vector<float>& y) {
  std::uint8_t* const memory = map_low(kMemoryBytes, false);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::uint16_t a = f32_to_bf16(x[k]), b = f32_to_bf16(y[k]);
    std::memcpy(memory + 128 + 4 * k, &a, 2);
    std::memcpy(memory + 256 + 4 * k, &b, 2);
  }
  std::memcpy(memory + 64, &sum, 4);
  TileProgram program;
  program.steps.push_back(config_step([&](TileConfig& c) {
    const auto depth = static_cast<std::uint8_t>(x.size());
    c.rows[0] = c.rows[1] = 1;
    c.rows[2] = depth;
    c.row_bytes[0] = c.row_bytes[2] = 4;
    c.row_bytes[1] = static_cast<std::uint16_t>(4 * depth);
  }));
  for (int t = 0; t < 3; ++t) {
    program.steps.push_back({.op = TileOp::kLoad,
                             .tile = t,
                             .offset = t == 0 ? 64 : 128 * t,
                             .stride = 4,
                             .form = {.base_register = 3, .index_register = 6}});
  }
  program.steps.push_back({.op = TileOp::kDot, .dot = Dot::kBF16PS, .tile = 0, .a = 1, .b = 2});
  program.steps.push_back({.op = TileOp::kStore, .tile = 0, .offset = 64});
  call(assemble(program, memory, false), map_low(1 << 16, true));
  std::memcpy(&sum, memory + 64, 4);
  return sum;
}

TEST(AmxTrap, FloatsAreRoundedOnceAndFlushed) {
  const auto check = [] {
    const float inf = std::numeric_limits<float>::infinity();
    const struct {
      float sum;
      std::vector<float> x, y;
      float want;
    } cases[] = {
        {1, {0x1p-12F, 0x1p-12F}, {0x1p-12F, 0x1p-12F}, 1 + 0x1p-23F},
        {1, {0x1p-12F}, {0x1p-12F}, 1},   // ties to even
        {0x1p-127F, {1}, {0}, 0},         // a sum below the normal numbers
        {0, {0x1p-127F}, {0x1p127F}, 0},  // such an element
        {0, {0x1p-63F}, {0x1p-64F}, 0},   // such a product
        {-0x1.8p-126F, {0x1p-63F}, {0x1p-63F}, -0.0F},
        // Small after rounding, or not: the products are not rounded.
        {0, {0x1p-63F, -0x1p-75F}, {0x1p-63F, 0x1p-76F}, 0x1p-126F},
        {0, {0x1p-63F, -0x1p-75F}, {0x1p-63F, 0x1p-75F}, 0},
        {0, {0x1p100F, -0x1p100F}, {0x1p100F, 0x1p100F}, inf},
        {0, {inf, -inf}, {1, 1}, inf - inf},
        {0, {0x1p64F, 1}, {0x1p63F, 1}, 0x1p127F},
        {0, {0x1p64F}, {0x1p64F}, inf},
    };
    for (const auto& c : cases) {
      const float got = dot_of(c.sum, c.x, c.y);
      if (std::isnan(c.want) ? !std::isnan(got) : std::memcmp(&got, &c.want, 4) != 0)
        return fmt::format("{} and {} * {}: {}, not {}", c.sum, c.x[0], c.y[0], got, c.want);
    }
    return std::string();
  };
  EXPECT_EQ(in_process(Who::kHandler, check), "");
  if (!processor_has_amx())
    GTEST_SKIP() << "by the handler only: this processor or kernel has no AMX";
  EXPECT_EQ(in_process(Who::kProcessor, check), "");
}

// A dot between what sets and what reads the registers; rounding upwards does not concern it.
TEST(AmxTrap, LeavesTheRegistersAlone) {
  const auto check = []() -> std::string {
    const TileConfig config{
        .palette = 1, .start_row = 0, .zero = {}, .row_bytes = {4, 4, 4}, .rows = {1, 1, 1}};
    const unsigned upwards = 0x5f80;
    unsigned control = 0;
    std::uint64_t flags = 0, sum = 0;
    double wide[4] = {1, 2, 3, 4}, out[4] = {};
    // ldtilecfg [rcx]; tdpbf16ps tmm0, tmm1, tmm2; tilerelease.
    __asm__ volatile(
        "ldmxcsr %[upwards]\n\t"
        "movupd (%[wide]), %%xmm3\n\t"
        "movupd 16(%[wide]), %%xmm15\n\t"
        "movq $0x1234567, %%r11\n\t"
        "stc\n\t"
        ".byte 0xc4, 0xe2, 0x78, 0x49, 0x01, 0xc4, 0xe2, 0x6a, 0x5c, 0xc1, 0xc4, 0xe2, 0x78, 0x49, "
        "0xc0\n\t"
        "pushfq\n\tpopq %[flags]\n\t"
        "movq %%r11, %[sum]\n\t"
        "movupd %%xmm3, (%[out])\n\t"
        "movupd %%xmm15, 16(%[out])\n\t"
        "stmxcsr %[control]\n\t"
        : [flags] "=&r"(flags), [sum] "=&r"(sum), [control] "=m"(control)
        : "c"(&config), [wide] "r"(wide), [out] "r"(out), [upwards] "m"(upwards)
        : "memory", "cc", "xmm3", "xmm15", "r11");
    const unsigned usual = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(usual));
    if (control != upwards) return "the control word of floats";
    if ((flags & 1) == 0 || sum != 0x1234567) return "flags or registers";
    return std::memcmp(wide, out, sizeof(wide)) == 0 ? "" : "vectors";
  };
  EXPECT_EQ(in_process(Who::kHandler, check), "");
}

// The 128 bytes below the stack pointer belong to the function.
TEST(AmxTrap, LeavesTheRedZoneAlone) {
  const auto check = []() -> std::string {
    std::uint64_t got = 0;
    // lock sttilecfg [rsp - 64], which is zero, between numbers at both ends of the zone.
    __asm__ volatile(
        "subq $256, %%rsp\n\t"
        "movq $11, -128(%%rsp)\n\t"
        "movq $7, -64(%%rsp)\n\t"
        ".byte 0xf0, 0xc4, 0xe2, 0x79, 0x49, 0x44, 0x24, 0xc0\n\t"
        "movq -128(%%rsp), %[got]\n\t"
        "addq -64(%%rsp), %[got]\n\t"
        "addq $256, %%rsp\n\t"
        : [got] "=&r"(got)
        :
        : "memory", "cc");
    return got == 11 ? "" : std::to_string(got);
  };
  EXPECT_EQ(in_process(Who::kHandler, check), "");
}

sigjmp_buf after_signal;
volatile int handled = 0;
void remember(int) {
  handled = handled + 1;
  siglongjmp(after_signal, 1);
}

TEST(AmxTrap, OtherIllegalInstructionsReachTheHandlerBefore) {
  if (amx_is_emulated()) GTEST_SKIP() << "the handler was installed when the program began";
  const auto check = []() -> std::string {
    if (sigsetjmp(after_signal, 1) == 0) __asm__ volatile("ud2");
    if (sigsetjmp(after_signal, 1) == 0) raise(SIGILL);
    if (handled != 2) return fmt::format("handled {}", handled);
    return compare(1, 5, true, false, false);  // and AMX still works
  };
  EXPECT_EQ(in_process(Who::kHandler, check, [] { std::signal(SIGILL, remember); }), "");
  // Without one they end the process.
  EXPECT_EQ(in_process(Who::kHandler, check), "signal 4");
}

TEST(AmxTrap, AddressesThatCannotBeReadAreFaults) {
  const auto check = [] {
    std::uint8_t* const memory = map_low(kMemoryBytes, false);
    std::uint8_t* const executable = map_low(1 << 16, true);
    TileProgram program;
    program.steps = {config_step([](TileConfig&) {}), {.op = TileOp::kLoad}};
    program.steps[0].form.base = AddressForm::Base::kInstruction;
    mprotect(memory, kMemoryBytes, PROT_NONE);
    call(assemble(program, memory, false), executable);
    return std::string("was executed");
  };
  EXPECT_EQ(in_process(Who::kHandler, check, [] { std::signal(SIGSEGV, SIG_DFL); }), "signal 11");
}

TEST(AmxTrap, RequestsForPermissionSucceed) {
  const auto request = [] {
    constexpr int kRequest = 0x1023, kGetFs = 0x1003, kTileData = 18, kOther = 63;
    std::uint64_t fs = 0;
    if (syscall(SYS_arch_prctl, kRequest, kTileData) != 0) return std::string("refused");
    if (syscall(SYS_arch_prctl, kRequest, kOther) == 0) return std::string("any state");
    if (syscall(SYS_arch_prctl, kGetFs, &fs) != 0 || fs == 0) return std::string("other calls");
    return compare(1, 3, true, false, false);
  };
  EXPECT_EQ(in_process(Who::kHandler, request), "");
}

TEST(AmxTrap, CountsWhatTheHandlerExecutes) {
  EXPECT_EQ(in_process(Who::kHandler,
                       [] {
                         const std::int64_t before = emulated_amx_instructions();
                         dot_of(0, {1}, {1});
                         // Of six instructions a processor with AMX executes the first.
                         const std::int64_t more = emulated_amx_instructions() - before;
                         return more == 5 || more == 6 ? "" : std::to_string(more);
                       }),
            "");
}

}  // namespace
}  // namespace tessera::testing
