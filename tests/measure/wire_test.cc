#include "tessera/trials/measure/wire.h"

#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tessera/trials/measure/messages.h"

namespace tessera::measure {
namespace {

std::pair<Channel, Channel> make_pair_of_channels() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Channel(ends[0]), Channel(ends[1])};
}

TEST(Wire, MessagesComeBackWhole) {
  Measured sent;
  sent.number = 7;
  sent.measurement.outcome = Outcome::kRunTimeout;
  sent.measurement.reason = std::string("a\0b", 3);
  sent.measurement.samples_s = {1.5, 2.5};
  sent.measurement.disturbed = true;
  sent.waiting_share = 0.25;
  Measured got;
  ASSERT_TRUE(decode({Kind::kMeasured, encode(sent)}, &got));
  EXPECT_EQ(got.number, 7u);
  EXPECT_EQ(got.measurement.outcome, Outcome::kRunTimeout);
  EXPECT_EQ(got.measurement.reason, sent.measurement.reason);
  EXPECT_EQ(got.measurement.samples_s, sent.measurement.samples_s);
  EXPECT_TRUE(got.measurement.disturbed);
  EXPECT_EQ(got.waiting_share, 0.25);
}

TEST(Wire, DamagedMessagesAreRefused) {
  Built built;
  built.layouts = {"d1 d0", ""};
  const std::string bytes = encode(built);
  Built got;
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decode({Kind::kBuilt, bytes.substr(0, n)}, &got)) << n;
  EXPECT_FALSE(decode({Kind::kBuilt, bytes + "x"}, &got));
  EXPECT_FALSE(decode({Kind::kBuilt, std::string(bytes.size(), '\xff')}, &got));
}

TEST(Channel, CarriesFramesLargerThanTheSocket) {
  auto [a, b] = make_pair_of_channels();
  const std::string large(5 << 20, 'z');
  std::thread sender([&a = a, &large] {
    EXPECT_TRUE(a.send(Kind::kBuilt, large));
    EXPECT_TRUE(a.send(Kind::kRan, ""));
  });
  const std::optional<Frame> first = b.receive();
  const std::optional<Frame> second = b.receive();
  sender.join();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->body, large);
  EXPECT_EQ(second->kind, Kind::kRan);
}

TEST(Channel, QueuesWhatTheSocketDoesNotTake) {
  auto [a, b] = make_pair_of_channels();
  const std::string large(5 << 20, 'q');
  ASSERT_TRUE(a.enqueue(Kind::kRun, large));
  EXPECT_TRUE(a.wants_to_write());
  std::optional<Frame> got;
  while (!(got = b.next())) {
    ASSERT_TRUE(b.fill());
    ASSERT_TRUE(a.flush());
  }
  EXPECT_EQ(got->body, large);
  EXPECT_FALSE(a.wants_to_write());
}

TEST(Channel, ADeadPeerIsNoSignal) {
  auto [a, b] = make_pair_of_channels();
  b.close();
  EXPECT_FALSE(a.send(Kind::kRun, "x"));
  EXPECT_FALSE(a.enqueue(Kind::kRun, "x"));
  EXPECT_FALSE(a.receive().has_value());
  EXPECT_FALSE(a.fill());
}

}  // namespace
}  // namespace tessera::measure
