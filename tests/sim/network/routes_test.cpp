// Tests routes: the least cost, even division among equally short ways, latencies and shared limits.
#include "sim/network/routes.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/network/samples.hpp"

BOOST_AUTO_TEST_SUITE(routes)

using namespace troupe;
using namespace troupe::sim;

namespace {

const std::string links = "links:\n";

std::string link(const std::string& from, const std::string& to, double latency_s, const std::string& more = "") {
  return fmt::format("  - {{from: {}, to: {}, bandwidth_bytes_per_s: 1, latency_s: {}, direction: both{}}}\n", from, to,
                     latency_s, more);
}

/// Returns the fractions by names of links; limits are "limit NUMBER".
std::map<std::string, double> fractions(const network& n, const std::vector<route_share>& shares) {
  std::map<std::string, double> out;
  for (const auto& s : shares) {
    const bool is_link = s.resource < n.links.size();
    const std::string name =
        is_link ? n.vertex_names[n.links[s.resource].from] + " " + n.vertex_names[n.links[s.resource].to]
                : fmt::format("limit {}", s.resource - n.links.size());
    BOOST_TEST(!out.contains(name));
    out[name] = s.fraction;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_transfer_is_divided_evenly_among_the_shortest_ways) {
  const network n = network_of(
      "kind: network\nnodes: [{name: a, devices: 2}, {name: b, devices: 1}]\n"
      "switches: [{name: leaf, count: 2, oversubscription: 1}, {name: spine, count: 3}, {name: slow}]\n" +
      links + link("a.device(d)", "leaf0", 1) + link("b.device0", "leaf1", 1) + link("leaf(l)", "spine(s)", 2) +
      link("leaf(l)", "slow", 0, ", cost: 2"));
  network_routes routes(n);
  std::vector<route_share> shares;
  BOOST_TEST(routes.append(0, 2, shares) == 6.0);
  const auto of = fractions(n, shares);
  BOOST_TEST(of.size() == 10U);  // a.device0 leaf0, 3 up, 3 down, leaf1 b.device0, a limit of each leaf
  BOOST_TEST(of.at("a.device0 leaf0") == 1.0);
  for (const char* one : {"leaf0 spine0", "leaf0 spine2", "spine1 leaf1"}) BOOST_TEST(of.at(one) == 1.0 / 3);
  BOOST_TEST(of.at("limit 0") == 1.0, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(of.at("limit 3") == 1.0, boost::test_tools::tolerance(1e-15));
  shares.clear();
  BOOST_TEST(routes.append(0, 1, shares) == 2.0);
  BOOST_TEST(fractions(n, shares).size() == 2U);  // traffic below a leaf does not use its uplinks
  shares.clear();
  BOOST_TEST(routes.append(1, 1, shares) == 0.0);
  BOOST_TEST(shares.empty());
}

BOOST_AUTO_TEST_CASE(costs_and_not_latencies_choose_the_way) {
  const std::string head = "kind: network\nnodes: [{name: a, devices: 2}]\nswitches: [{name: near}, {name: far}]\n" +
                           links + link("a.device(d)", "near", 0.5);
  for (const uint32_t cost : {1U, 2U}) {
    const network n = network_of(head + link("a.device(d)", "far", 0.25, fmt::format(", cost: {}", cost)));
    network_routes routes(n);
    std::vector<route_share> shares;
    BOOST_TEST(routes.append(0, 1, shares) == 1.0);  // of two ways, the latency is that of the slower one
    BOOST_TEST(shares.size() == (cost == 1 ? 4U : 2U));
  }
  // A direct link is shorter, and a way through a third device is a way.
  const network chain = network_of("kind: network\nnodes: [{name: a, devices: 3}]\n" + links +
                                   link("a.device0", "a.device1", 1) + link("a.device1", "a.device2", 1));
  network_routes routes(chain);
  std::vector<route_share> shares;
  BOOST_TEST(routes.append(2, 0, shares) == 2.0);
  BOOST_TEST(shares.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_leaves_a_device_arrives_whole) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const network n = network_of(draw_network(seed).text());
    network_routes routes(n);
    for (uint32_t a = 0; a < n.devices(); ++a)
      for (uint32_t b = 0; b < n.devices(); ++b) {
        std::vector<route_share> shares;
        routes.append(a, b, shares);
        std::vector<double> surplus(n.vertices());  // [vertex]: fraction that leaves it less what arrives
        for (const auto& s : shares)
          if (s.resource < n.links.size()) {
            surplus[n.links[s.resource].from] += s.fraction;
            surplus[n.links[s.resource].to] -= s.fraction;
          }
        for (uint32_t v = 0; v < n.vertices(); ++v) {
          const double wanted = a == b ? 0 : v == a ? 1 : v == b ? -1 : 0;
          BOOST_TEST(std::abs(surplus[v] - wanted) < 1e-12, "seed " << seed);
        }
      }
  }
}

BOOST_AUTO_TEST_SUITE_END()
