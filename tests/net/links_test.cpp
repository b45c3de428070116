#include "net/tls_link.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/check_ok.hpp"
#include "tests/net/hosts.hpp"

BOOST_AUTO_TEST_SUITE(links)

using namespace troupe;
using namespace troupe::net;
using namespace troupe::cluster;
using troupe::tests::check_failed;

namespace {

std::vector<parcel> all_of(tls_link& from, size_t count) {
  std::vector<parcel> out;
  while (out.size() < count)
    for (auto& p : must(next_parcels(from))) out.push_back(std::move(p));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_arrive_in_order_both_ways_however_long_they_are) {
  linked_hosts l;
  for (tls_link* from : {l.of_a.get(), l.of_b.get()})
    for (uint64_t i = 0; i < 40; ++i) BOOST_TEST_CONTEXT("i " << i)
  BOOST_TEST_REQUIRE(from->send({call{1, i, std::string(i * 100'000, 'x')}, {}}).has_value());
  for (tls_link* to : {l.of_b.get(), l.of_a.get()}) {
    const auto came = all_of(*to, 40);
    for (uint64_t i = 0; i < 40; ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto& c = std::get<call>(came[i].what);
      BOOST_TEST(c.number == i);
      BOOST_TEST(c.what.size() == i * 100'000);
    }
  }
  BOOST_TEST(!l.of_a->is_sending());
}

BOOST_AUTO_TEST_CASE(each_end_knows_the_others_certified_name_and_introduction) {
  endpoint_setup setup{hosts().of("node1")};
  setup.admit = [](const std::string& name, const std::string& said) -> core::result<std::string> {
    return "welcome " + name + " who says " + said;
  };
  const auto a = must(endpoint::open(std::move(setup)));
  const auto b = must(endpoint::open({hosts().of("node2")}));
  const uint16_t port = must(a->listen("127.0.0.1", 0));
  const auto of_b = must(b->connect("127.0.0.1", port, "node1", "job 7, version 2"));
  const auto of_a = next_link(*a);
  BOOST_TEST(of_b->name() == "node1");
  BOOST_TEST(of_b->introduction() == "welcome node2 who says job 7, version 2");
  BOOST_TEST(of_a->name() == "node2");
  BOOST_TEST(of_a->introduction() == "job 7, version 2");
  BOOST_TEST(of_b->address() == fmt::format("127.0.0.1:{}", port));
  BOOST_TEST(of_a->address().starts_with("127.0.0.1:"));
}

BOOST_AUTO_TEST_CASE(the_event_is_readable_while_there_is_something_to_receive) {
  linked_hosts l;
  BOOST_TEST(!is_readable(l.of_a->number(), 50));
  BOOST_TEST_REQUIRE(l.of_b->send({beat{}, {}}).has_value());
  BOOST_TEST(is_readable(l.of_a->number(), 5000));
  BOOST_TEST(all_of(*l.of_a, 1).size() == 1U);
  BOOST_TEST(!is_readable(l.of_a->number(), 50));
  l.of_b.reset();
  const auto end = next_parcels(*l.of_a);
  BOOST_TEST_REQUIRE(!end.has_value());
  BOOST_TEST((end.error().kind == core::error_kind::peer_lost));
  BOOST_TEST(end.error().text.find("the link to 'node2' (127.0.0.1:") == 0U);
  BOOST_TEST(end.error().text.ends_with("it was closed"));
  BOOST_TEST(is_readable(l.of_a->number(), 0));
  BOOST_TEST(!l.of_a->send({beat{}, {}}).has_value());
}

BOOST_AUTO_TEST_CASE(the_last_message_of_an_end_that_closes_arrives) {
  linked_hosts l;
  BOOST_TEST_REQUIRE(l.of_b->send({call{1, 2, std::string(8'000'000, 'x')}, {}}).has_value());
  BOOST_TEST_REQUIRE(l.of_b->send({leaving{3}, {}}).has_value());
  l.of_b.reset();
  l.b.reset();
  const auto came = all_of(*l.of_a, 2);
  BOOST_TEST(std::get<leaving>(came[1].what).code == 3);
  BOOST_TEST(!next_parcels(*l.of_a).has_value());
}

BOOST_AUTO_TEST_CASE(links_outlive_the_endpoint_that_they_come_from) {
  linked_hosts l;
  l.a.reset();
  l.b.reset();
  BOOST_TEST_REQUIRE(l.of_b->send({beat{}, {}}).has_value());
  BOOST_TEST(all_of(*l.of_a, 1).size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_waits_for_an_end_that_does_not_read_is_bounded_and_nobody_waits_for_it) {
  linked_hosts l;
  const int64_t begin = core::now_ns();
  core::result<void> sent;
  size_t taken = 0;
  while (sent && taken < 40) {
    sent = l.of_b->send({call{1, taken, std::string(size_t{32} << 20, 'x')}, {}});
    if (sent) ++taken;
  }
  BOOST_TEST_REQUIRE(!sent.has_value());
  BOOST_TEST((sent.error().kind == core::error_kind::limit));
  BOOST_TEST(taken >= 15U);
  BOOST_TEST(taken <= 20U);  // the limit of queued bytes is 512 MiB; the other end and the system buffer some more
  BOOST_TEST(l.of_b->is_sending());
  // The sender must not block but report that its limit is reached.
  BOOST_TEST(core::now_ns() - begin < 60'000'000'000);
  const auto came = all_of(*l.of_a, taken);
  BOOST_TEST(std::get<call>(came.back().what).number == taken - 1);
}

BOOST_AUTO_TEST_CASE(messages_that_are_too_long_or_carry_descriptors_are_refused) {
  linked_hosts l;
  check_failed(l.of_b->send({beat{}, {own(::eventfd(0, 0))}}), core::error_kind::bad_input);
  check_failed(l.of_b->send({call{1, 1, std::string(frame_bytes_max, 'x')}, {}}), core::error_kind::limit);
  BOOST_TEST_REQUIRE(l.of_b->send({beat{}, {}}).has_value());
  BOOST_TEST(all_of(*l.of_a, 1).size() == 1U);
}

BOOST_AUTO_TEST_CASE(hosts_are_reached_by_name_and_by_address_of_either_kind) {
  const auto a = must(endpoint::open({hosts().of("node1")}));
  const auto of_four = must(endpoint::open({hosts().of("127.0.0.1")})),
             of_six = must(endpoint::open({hosts().of("::1")}));
  const auto b = must(endpoint::open({hosts().of("node2")}));
  const uint16_t port = must(a->listen("*", 0)), four = must(of_four->listen("127.0.0.1", 0)),
                 six = must(of_six->listen("::1", 0));
  BOOST_TEST(must(b->connect("localhost", port, "node1", ""))->name() == "node1");
  BOOST_TEST(must(b->connect("127.0.0.1", port, "node1", ""))->name() == "node1");
  BOOST_TEST(must(b->connect("::1", port, "node1", ""))->name() == "node1");
  BOOST_TEST(must(b->connect("127.0.0.1", four, "127.0.0.1", ""))->name() == "127.0.0.1");
  BOOST_TEST(must(b->connect("::1", six, "::1", ""))->name() == "::1");
}

BOOST_AUTO_TEST_CASE(where_nobody_listens_or_no_host_is_that_is_said) {
  const auto a = must(endpoint::open({hosts().of("node1")}));
  uint16_t port = 0;
  {
    const auto gone = must(endpoint::open({hosts().of("node2")}));
    port = must(gone->listen("127.0.0.1", 0));
    check_failed(a->listen("127.0.0.1", port), "Address already in use");
  }
  const auto nobody = a->connect("127.0.0.1", port, "node2", "");
  BOOST_TEST_REQUIRE(!nobody.has_value());
  BOOST_TEST((nobody.error().kind == core::error_kind::peer_lost));
  BOOST_TEST(nobody.error().text == fmt::format("127.0.0.1:{}: Connection refused", port));
  // The name is too long to be valid, so the test asks no name server.
  const std::string longer_than_names_are = std::string(64, 'x') + ".invalid";
  check_failed(a->connect(longer_than_names_are, port, "node2", ""),
               "no address of the host '" + longer_than_names_are + "'");
  check_failed(a->listen("node1", 0), "wanted an IP address of this machine or *");
}

BOOST_AUTO_TEST_SUITE_END()
