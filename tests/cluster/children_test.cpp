// Tests the owner of a machine's processes with a real process that ends slowly.
#include "cluster/children.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(children)

using namespace troupe;

namespace {

/// Waits until the process has closed its end of the link, without reading from the link.
void wait_for_hangup(const cluster::children& all) {
  std::vector<pollfd> on;
  all.add_to(on);
  BOOST_REQUIRE(on.size() == 1U);
  on[0].events = 0;  // poll() reports POLLHUP unasked
  BOOST_REQUIRE(::poll(on.data(), on.size(), 20'000) == 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_crowded_machine_is_named_as_a_reason_to_be_silent) {
  BOOST_TEST(cluster::crowd_text(4, 2).empty());
  BOOST_TEST(cluster::crowd_text(31, 0).empty());
  BOOST_TEST(cluster::crowd_text(31.2, 2) ==
             "; 31 threads of its machine want 2 cores, so that it may be healthy and starved: run less there, or set "
             "a longer cluster.lost_after");
}

BOOST_AUTO_TEST_CASE(a_message_to_a_process_that_has_gone_hides_none_of_its_last_messages) {
  std::vector<std::string> events;
  cluster::children all(
      {troupe::places::worker, {"worker", "3"}, 1},
      [&](uint32_t, const cluster::parcel& p) {
        if (const auto* x = std::get_if<cluster::leaving>(&p.what)) events.push_back(fmt::format("leaves {}", x->code));
      },
      [&](uint32_t, const std::string& how) { events.push_back(how); });
  tests::check_ok(all.start(0));
  wait_for_hangup(all);
  all.send(0, {cluster::beat{}});
  BOOST_TEST(events.empty());
  for (int i = 0; i < 100 && events.size() < 2; ++i) {
    std::vector<pollfd> on;
    all.add_to(on);
    ::poll(on.data(), on.size(), 200);
    all.listen(on, 0);
  }
  BOOST_REQUIRE(events.size() == 2U);
  BOOST_TEST(events[0] == "leaves 3");
  BOOST_TEST(events[1] == "has closed its link to the supervisor");
}

BOOST_AUTO_TEST_SUITE_END()
