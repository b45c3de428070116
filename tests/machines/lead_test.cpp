// Tests how a host remains the leader of a job, and how another host takes over from the first one, without network and
// processes, with a store in memory.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <thread>

#include "apps/agent/introduction.hpp"
#include "apps/agent/lead_keeper.hpp"
#include "apps/agent/takeover.hpp"
#include "tests/fakes/leader_store.hpp"

BOOST_AUTO_TEST_SUITE(lead)

using namespace troupe;
using namespace troupe::apps;

namespace {

constexpr uint32_t lease_s = 2;
const net::lead me{"a", "a:4400", "authority"}, other{"b", "b:4400", "authority"};

struct keeping {
  tests::fake_etcd etcd;
  std::unique_ptr<net::leader_store> store = etcd.open(lease_s);
  std::vector<std::string> said;
  lead_keeper keeper{*store, me, [this](const std::string& line) { said.push_back(line); }};

  keeping() { BOOST_TEST_REQUIRE(store->take(me, net::leader_store::part::begins)->is_mine); }
  [[nodiscard]] bool has_said(const std::string& what) const {
    return said.size() == 1 && said.front().find(what) != std::string::npos;
  }
};

config::cluster_host host(const std::string& name, uint64_t ranks = 1, const std::string& bind = "",
                          bool is_spare = false) {
  return {name, ranks, bind, is_spare};
}

config::cluster_section cluster_of(std::vector<config::cluster_host> hosts) {
  config::cluster_section c;
  c.hosts = std::move(hosts);
  c.listen = "10.0.0.1:4400";
  return c;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_lead_that_is_refreshed_in_time_stays_and_nothing_is_said) {
  keeping x;
  for (int i = 0; i < 10; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    x.etcd.pass(1);
    BOOST_TEST((x.keeper.look() == lead_keeper::standing::held));
  }
  BOOST_TEST(x.said.empty());
}

BOOST_AUTO_TEST_CASE(a_silent_store_ends_nothing_and_is_warned_about_once) {
  keeping x;
  x.etcd.answer(false);
  for (int i = 0; i < 100; ++i)
    BOOST_TEST_CONTEXT("i " << i) BOOST_TEST((x.keeper.look() == lead_keeper::standing::unanswered));
  BOOST_TEST(x.has_said("warning: cluster.store: no member answers; training continues"));
  x.said.clear();
  x.etcd.answer(true);
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::held));
  BOOST_TEST(x.has_said("it answers again"));
}

BOOST_AUTO_TEST_CASE(a_host_that_hears_no_store_gives_way_after_a_lease_where_hosts_are_missing_and_not_before) {
  tests::fake_etcd etcd;
  auto store = etcd.open(1);
  BOOST_TEST_REQUIRE(store->take(me, net::leader_store::part::begins)->is_mine);
  etcd.answer(false);
  kept_lead kept(std::move(store), me, 1, [](const std::string&) {});
  kept.miss_hosts(true);
  BOOST_TEST(!kept.is_replaced());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  kept.miss_hosts(false);
  BOOST_TEST(!kept.is_replaced());
  kept.miss_hosts(true);
  BOOST_TEST(kept.is_replaced());
}

BOOST_AUTO_TEST_CASE(a_lease_that_has_run_out_is_taken_again_where_nobody_has_it) {
  keeping x;
  x.etcd.pass(10);
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::held));
  BOOST_TEST(x.has_said("it was taken again, and the job continues"));
  BOOST_TEST((x.store->read()->who == me));
}

BOOST_AUTO_TEST_CASE(the_hosts_own_entry_is_no_other_leader) {
  keeping x;
  x.etcd.pass(10);
  const auto of_a_lost_answer = x.etcd.open(lease_s);
  BOOST_TEST_REQUIRE(of_a_lost_answer->take(me, net::leader_store::part::continues)->is_mine);
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::unanswered));
  BOOST_TEST(x.has_said("this host's own lease"));
  x.etcd.pass(10);
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::held));
}

BOOST_AUTO_TEST_CASE(a_host_that_was_cut_off_gives_way_to_the_one_that_leads_now) {
  keeping x;
  x.etcd.answer(false);
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::unanswered));
  x.etcd.pass(10);
  x.etcd.answer(true);
  const auto theirs = x.etcd.open(lease_s);
  BOOST_TEST_REQUIRE(theirs->take(other, net::leader_store::part::continues)->is_mine);
  x.said.clear();
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::replaced));
  BOOST_TEST(x.has_said("b at b:4400 leads the job now"));
}

BOOST_AUTO_TEST_CASE(a_host_that_was_cut_off_gives_way_where_another_one_has_ended_the_job) {
  keeping x;
  x.etcd.pass(10);
  const auto theirs = x.etcd.open(lease_s);
  BOOST_TEST_REQUIRE(theirs->take(other, net::leader_store::part::continues)->is_mine);
  BOOST_TEST(theirs->give_up(0).has_value());
  BOOST_TEST((x.keeper.look() == lead_keeper::standing::replaced));
  BOOST_TEST(x.has_said("another host has led the job to its end"));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_job_gives_the_lead_up_and_stays_to_be_read) {
  tests::fake_etcd etcd;
  auto store = etcd.open(lease_s);
  BOOST_TEST_REQUIRE(store->take(me, net::leader_store::part::begins)->is_mine);
  {
    kept_lead kept(std::move(store), me, lease_s, [](const std::string&) {});
    kept.end(3);
  }
  const auto left = etcd.open(lease_s)->read();
  BOOST_TEST_REQUIRE(left.has_value());
  BOOST_TEST(!left->who);
  BOOST_TEST((left->over == 3));
}

BOOST_AUTO_TEST_CASE(who_takes_the_first_hosts_part_comes_first_at_its_own_address_with_its_own_certificate) {
  cluster::job_order order;
  order.arguments = {"troupe", "train", "/proc/1/fd/2", "--json", "--fresh"};
  order.file_argument = 2;
  auto c = cluster_of({host("a", 2), host("b", 1, "10.0.0.9"), host("c", 1, "", true)});
  c.page = "10.0.0.1:8080";
  const own_part b{"b", "10.0.0.2:4400", {"/b/ca.crt", "/b/it's.crt", "/b/host.key"}};
  const std::vector<std::string> wanted = {
      "troupe",
      "train",
      "/job.yaml",
      "--json",
      "--fresh",
      "--set",
      "cluster.hosts=[{name: 'b', ranks: 1, bind: '10.0.0.9', spare: false}, {name: 'a', ranks: 2, bind: '', spare: "
      "false}, {name: 'c', ranks: 1, bind: '', spare: true}]",
      "--set",
      "cluster.listen='10.0.0.2:4400'",
      "--set",
      "cluster.tls.ca='/b/ca.crt'",
      "--set",
      "cluster.tls.certificate='/b/it''s.crt'",
      "--set",
      "cluster.tls.key='/b/host.key'",
      "--set",
      "cluster.page='10.0.0.2:8080'"};
  BOOST_TEST(arguments_of_leader(order, c, "/job.yaml", b) == wanted, boost::test_tools::per_element());
  BOOST_TEST((can_lead(c, "a") && can_lead(c, "b") && !can_lead(c, "c") && !can_lead(c, "z")));
}

BOOST_AUTO_TEST_CASE(a_host_leads_at_an_address_that_others_reach) {
  const auto c = cluster_of({host("a"), host("b", 1, "10.0.0.9"), host("c")});
  BOOST_TEST(address_to_lead_at(c, "b", "10.0.0.2").value() == "10.0.0.9:4400");
  BOOST_TEST(address_to_lead_at(c, "c", "10.0.0.3").value() == "10.0.0.3:4400");
  BOOST_TEST(address_to_lead_at(c, "c", "fd00::3").value() == "[fd00::3]:4400");
  const auto every = address_to_lead_at(c, "a", "*");
  BOOST_TEST_REQUIRE(!every);
  BOOST_TEST(every.error().text.find("got every address of this host") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_configuration_is_the_same_whichever_host_comes_first) {
  config::loaded one, two;
  one.config.cluster.hosts = {host("a", 2), host("b")};
  two.config.cluster.hosts = {host("b"), host("a", 2)};
  BOOST_TEST(configuration_digest(one) == configuration_digest(two));
  two.config.cluster.hosts = {host("b"), host("a")};
  BOOST_TEST(configuration_digest(one) != configuration_digest(two));
}

BOOST_AUTO_TEST_CASE(the_configuration_is_the_same_with_options_that_the_first_host_alone_is_given) {
  config::loaded one, two;
  one.config.steps = 10;
  one.config.checkpoint.load.path = "/earlier";
  BOOST_TEST(configuration_digest(one) == configuration_digest(two));
  one.config.checkpoint.every_steps = 5;
  BOOST_TEST(configuration_digest(one) != configuration_digest(two));
}

BOOST_AUTO_TEST_SUITE_END()
