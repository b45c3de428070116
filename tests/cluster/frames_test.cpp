#include "cluster/link.hpp"
#include "tests/check_ok.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>

BOOST_AUTO_TEST_SUITE(frames)

using namespace troupe;
using namespace troupe::cluster;
using troupe::tests::check_failed;
using troupe::tests::check_ok;

namespace {

struct pair {
  pair() {
    auto ends = check_ok(make_pair());
    raw = ends->second;
    a = std::make_unique<socket_link>(ends->first);
    b = std::make_unique<socket_link>(ends->second);
  }
  std::unique_ptr<socket_link> a, b;
  shared_descriptor raw;
};

/// Sends and receives on both ends until `count` parcels have arrived, and returns them.
std::vector<parcel> all_of(socket_link& from, socket_link& to, size_t count) {
  std::vector<parcel> out;
  while (out.size() < count) {
    BOOST_TEST_REQUIRE(from.flush().has_value());
    auto came = check_ok(to.receive());
    for (auto& p : *came) out.push_back(std::move(p));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_arrive_in_order_however_long_they_are) {
  pair p;
  for (uint64_t i = 0; i < 40; ++i) BOOST_TEST_CONTEXT("i " << i)
  BOOST_TEST_REQUIRE(p.a->send({call{1, i, std::string(i * 100'000, 'x')}, {}}).has_value());
  const auto came = all_of(*p.a, *p.b, 40);
  for (uint64_t i = 0; i < 40; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto& c = std::get<call>(came[i].what);
    BOOST_TEST(c.number == i);
    BOOST_TEST(c.what.size() == i * 100'000);
  }
  BOOST_TEST(!p.a->has_waiting());
}

BOOST_AUTO_TEST_CASE(descriptors_travel_with_their_message) {
  pair p;
  std::array<int, 2> pipe{};
  BOOST_TEST_REQUIRE(::pipe(pipe.data()) == 0);
  const auto write_end = own(pipe[1]), read_end = own(pipe[0]);
  BOOST_TEST_REQUIRE(p.a->send({beat{}, {}}).has_value());
  BOOST_TEST_REQUIRE(p.a->send({offer{1, 5}, {write_end}}).has_value());
  BOOST_TEST_REQUIRE(p.a->send({offer{1, 6}, {read_end, write_end}}).has_value());
  const auto came = all_of(*p.a, *p.b, 3);
  BOOST_TEST(came[0].with.empty());
  BOOST_TEST_REQUIRE(came[1].with.size() == 1);
  BOOST_TEST_REQUIRE(came[2].with.size() == 2);
  BOOST_TEST(::write(came[1].with[0]->number(), "hi", 2) == 2);
  std::array<char, 2> got{};
  BOOST_TEST(::read(came[2].with[0]->number(), got.data(), 2) == 2);
  BOOST_TEST(std::string(got.data(), 2) == "hi");
}

BOOST_AUTO_TEST_CASE(the_last_message_of_an_end_that_closes_arrives) {
  pair p;
  BOOST_TEST_REQUIRE(p.a->send({leaving{3}, {}}).has_value());
  p.a.reset();
  const auto last = check_ok(p.b->receive());
  BOOST_TEST_REQUIRE(last->size() == 1);
  BOOST_TEST(std::get<leaving>(last->front().what).code == 3);
  check_failed(p.b->receive(), core::error_kind::peer_lost);
}

BOOST_AUTO_TEST_CASE(frames_that_lie_end_the_link) {
  const auto refused = [](const std::string& bytes) {
    pair p;
    BOOST_TEST_REQUIRE(::send(p.raw->number(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    check_failed(p.a->receive(), core::error_kind::mismatch);
  };
  std::string good = frame_of(dismissal{}, 0);
  std::string long_one = good, greedy = good, unknown = good;
  const uint32_t bytes = ~0U, descriptors = 1;
  std::memcpy(long_one.data(), &bytes, sizeof bytes);
  std::memcpy(&greedy[4], &descriptors, sizeof descriptors);
  unknown.back() = '\x7f';
  refused(long_one);
  refused(greedy);
  refused(unknown);
}

BOOST_AUTO_TEST_SUITE_END()
