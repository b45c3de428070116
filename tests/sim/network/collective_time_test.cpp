// Tests the times of collectives: cases by hand, lower bounds, faster links and other names on drawn networks, scale.
#include "sim/network/collective_time.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/sim/network/samples.hpp"

BOOST_AUTO_TEST_SUITE(collective_time)

using namespace troupe;
using namespace troupe::sim;
using tests::check_error;
using tests::check_ok;
using how = collective_algorithm;
using what = collective_kind;

namespace {

using groups = std::vector<device_group>;

device_group first_devices(uint32_t count) {
  device_group out(count);
  std::iota(out.begin(), out.end(), 0U);
  return out;
}

sim::collective_time compute(const network& n, what op, double bytes, const groups& all, std::optional<how> only = {}) {
  network_routes routes(n);
  return *check_ok(time_of(op, bytes, all, routes, only));
}

/// Returns the bytes that have to leave a part of the network which has `in` of `n` members, `out` of them outside.
double needed_bytes(what op, double bytes, double in, double out, bool has_root) {
  if (in == 0 || out == 0) return 0;
  switch (op) {
    case what::all_reduce:
      return bytes;
    case what::reduce_scatter:
      return bytes * out / (in + out);
    case what::all_gather:
      return bytes * in / (in + out);
    case what::all_to_all:
      return bytes * in * out / (in + out);
    case what::broadcast:
      return has_root ? bytes : 0;
  }
  return 0;
}

/// Returns the longest time that a cut needs for the bytes that cross it: cuts around each device, each node and drawn
/// ones; for an all-reduce also all that members send.
double lower_bound_s(const network& n, what op, double bytes, const device_group& members, std::mt19937_64& random) {
  double out = 0;
  const auto try_cut = [&](const std::vector<bool>& inside) {
    double capacity = 0, in = 0;
    for (const auto& l : n.links) capacity += inside[l.from] && !inside[l.to] ? l.bytes_per_s : 0;
    for (const uint32_t d : members) in += inside[d] ? 1 : 0;
    const double needed = needed_bytes(op, bytes, in, double(members.size()) - in, inside[members.front()]);
    if (needed > 0) out = std::max(out, needed / capacity);
  };
  for (uint32_t d = 0; d < n.devices(); ++d) {
    std::vector<bool> inside(n.vertices());
    inside[d] = true;
    try_cut(inside);
    inside.flip();
    try_cut(inside);
  }
  for (const auto& node : n.node_names) {
    std::vector<bool> inside(n.vertices());
    for (uint32_t v = 0; v < n.vertices(); ++v) inside[v] = n.vertex_names[v].starts_with(node + ".");
    try_cut(inside);
    inside.flip();
    try_cut(inside);
  }
  for (int i = 0; i < 20; ++i) {
    std::vector<bool> inside(n.vertices());
    for (uint32_t v = 0; v < n.vertices(); ++v) inside[v] = random() % 2 == 0;
    try_cut(inside);
  }
  if (op == what::all_reduce) {
    double capacity = 0;
    for (const uint32_t d : members)
      for (const uint32_t i : n.links_from(d)) capacity += n.links[i].bytes_per_s;
    out = std::max(out, 2 * (double(members.size()) - 1) * bytes / capacity);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_nodes_of_two_devices_take_what_is_computed_by_hand) {
  const groups all = {first_devices(4)};
  // Ring: 6 phases of 100 B; from node to node 1 flow each way. Two levels: 2 phases of 200 B inside, 2 phases of 2
  // flows of 100 B between. Tree: 400 B between, then 400 B inside, twice. Pairs: 100 B with 1 flow between, then 200 B
  // with 2 flows.
  struct row {
    const char* oversubscription;
    double ring, tree, two_levels, pairs;
    how fastest;
  };
  for (const row& r : {row{"", 60, 160, 60, 60, how::ring}, row{", oversubscription: 2", 60, 160, 80, 100, how::ring},
                       row{", oversubscription: 4", 120, 240, 120, 200, how::ring},
                       row{", oversubscription: 8", 240, 400, 200, 400, how::two_levels}}) {
    BOOST_TEST_INFO_SCOPE(r.oversubscription);
    const network n = two_by_two(r.oversubscription);
    BOOST_TEST(compute(n, what::all_reduce, 400, all, how::ring).seconds == r.ring);
    BOOST_TEST(compute(n, what::all_reduce, 400, all, how::tree).seconds == r.tree);
    BOOST_TEST(compute(n, what::all_reduce, 400, all, how::two_levels).seconds == r.two_levels);
    BOOST_TEST(compute(n, what::all_reduce, 400, all, how::pairs).seconds == r.pairs);
    const auto fastest = compute(n, what::all_reduce, 400, all);
    BOOST_TEST((fastest.how == r.fastest));
    BOOST_TEST(fastest.seconds == std::min({r.ring, r.tree, r.two_levels, r.pairs}));
  }
  const network n = two_by_two(", oversubscription: 2");
  const auto ring = compute(n, what::all_reduce, 400, all, how::ring);
  for (size_t i = 0; i < n.links.size(); ++i) BOOST_TEST(ring.link_bytes[i] == 600.0);
  const auto levels = compute(n, what::all_reduce, 400, all, how::two_levels);
  for (size_t i = 0; i < n.links.size(); ++i) {
    const bool is_device = n.links[i].from < 4 || n.links[i].to < 4;
    BOOST_TEST(levels.link_bytes[i] == (is_device ? 600.0 : 400.0));
  }
  // All-to-all by pairs: distances 1, 2, 3 have 1, 2, 1 flows between nodes, of 100 B.
  BOOST_TEST(compute(n, what::all_to_all, 400, all, how::pairs).seconds == 40.0);
  BOOST_TEST(compute(n, what::broadcast, 400, all, how::tree).seconds == 80.0);
  const auto chain = compute(n, what::broadcast, 400, all, how::ring);
  BOOST_TEST(chain.chunks == 1024U);
  BOOST_TEST(chain.seconds == 40.0 / 1024 * (2 + 1024), boost::test_tools::tolerance(1e-12));
  // Two groups at once, one a node's first devices, share the uplinks.
  BOOST_TEST(compute(n, what::all_gather, 200, {{0, 2}}).seconds == 10.0);
  BOOST_TEST(compute(n, what::all_gather, 200, {{0, 2}, {1, 3}}).seconds == 20.0);
}

BOOST_AUTO_TEST_CASE(a_tree_wins_for_few_bytes_and_a_ring_for_many) {
  // Eight devices around a switch: ring 14 (2 us + B / 8 / (1 GB/s)), tree 6 (2 us + B / (1 GB/s)): equal at 3765 B.
  const network n = star(8, 1e9, 1e-6);
  const groups all = {first_devices(8)};
  const auto ring_less_tree = [&](double bytes) {
    return compute(n, what::all_reduce, bytes, all, how::ring).seconds -
           compute(n, what::all_reduce, bytes, all, how::tree).seconds;
  };
  BOOST_TEST(ring_less_tree(3700) > 0);
  BOOST_TEST(ring_less_tree(3800) < 0);
  BOOST_TEST(compute(n, what::all_reduce, 8000, all, how::ring).seconds == 14 * 3e-6,
             boost::test_tools::tolerance(1e-12));
  BOOST_TEST(compute(n, what::all_reduce, 0, all).seconds == 12e-6, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(compute(n, what::all_reduce, 8000, {{3}}).seconds == 0.0);
}

BOOST_AUTO_TEST_CASE(every_algorithm_moves_what_its_collective_needs) {
  const network n = network_of(draw_network(11).text());
  for (const uint32_t members : {2U, 3U, 4U, 6U, 7U, 8U}) {
    const network star_of = star(members, 1, 0);
    for (const what op : all_collectives)
      for (const how a : all_algorithms) {
        BOOST_TEST_INFO_SCOPE(name_of(op) << " by " << name_of(a) << " of " << members);
        const groups all = {first_devices(members)};
        const auto phases = phases_of(op, a, 840, all, star_of, 4);
        if (!phases) continue;
        std::vector<double> received(members);
        for (const auto& p : *phases)
          for (const auto& t : p.transfers) {
            BOOST_TEST(t.bytes == p.transfers.front().bytes);
            received[t.to] += t.bytes * p.sent;
          }
        const double part = 840.0 * (members - 1) / members;
        const double total = std::accumulate(received.begin(), received.end(), 0.0);
        const double least = op == what::broadcast    ? 840.0 * (members - 1)
                             : op == what::all_reduce ? 2 * part * members
                                                      : part * members;
        BOOST_TEST(total == least, boost::test_tools::tolerance(1e-12));
        if (a != how::tree && op != what::broadcast)
          for (const double r : received)
            BOOST_TEST(r == (op == what::all_reduce ? 2 : 1) * part, boost::test_tools::tolerance(1e-12));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_networks_keep_bounds_and_faster_links_never_hurt) {
  size_t num_levels = 0, num_faster = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const drawn_network drawn = draw_network(seed);
    const network n = network_of(drawn.text());
    const what op = all_collectives[seed % 5];
    const double bytes = std::pow(10.0, double(random() % 10));
    auto members = first_devices(n.devices());
    if (random() % 4 == 0 && members.size() > 2) members.resize(members.size() - 1);
    BOOST_TEST_INFO_SCOPE("seed " << seed << ", " << name_of(op) << " of " << bytes << " bytes");
    const auto time = compute(n, op, bytes, {members});
    num_levels += time.how == how::two_levels ? 1 : 0;

    // Never below the bytes over a bottleneck.
    BOOST_TEST(time.seconds >= lower_bound_s(n, op, bytes, members, random) * (1 - 1e-9));
    size_t busiest = 0;
    for (size_t i = 0; i < n.links.size(); ++i) {
      BOOST_TEST(time.seconds >= time.link_bytes[i] / n.links[i].bytes_per_s * (1 - 1e-9));
      if (time.link_bytes[i] / n.links[i].bytes_per_s > time.link_bytes[busiest] / n.links[busiest].bytes_per_s)
        busiest = i;
    }

    // A faster link never makes it slower; a much slower busiest link makes it slower.
    for (int k = 0; k < 3; ++k) {
      drawn_network faster = drawn;
      auto& line = faster.lines[random() % faster.lines.size()];
      if (random() % 3 == 0)
        line.latency_s /= 2;
      else
        line.bytes_per_s *= 1 + double(random() % 100) / 10;
      const double faster_s = compute(network_of(faster.text()), op, bytes, {members}).seconds;
      BOOST_TEST(faster_s <= time.seconds * (1 + 1e-9));
      num_faster += faster_s < time.seconds * (1 - 1e-9) ? 1 : 0;
    }
    if (members.size() > 1) {
      drawn_network slower = drawn;
      for (auto& line : slower.lines) {
        const std::string a = n.vertex_names[n.links[busiest].from], b = n.vertex_names[n.links[busiest].to];
        if ((line.from == a && line.to == b) || (line.from == b && line.to == a)) line.bytes_per_s /= 1e4;
      }
      BOOST_TEST(compute(network_of(slower.text()), op, bytes, {members}).seconds > time.seconds);
    }

    // Other names, and another order of links and switches, change nothing.
    drawn_network renamed = draw_network(seed, 90);
    BOOST_TEST(compute(network_of(renamed.text()), op, bytes, {members}).seconds == time.seconds);
    std::ranges::shuffle(renamed.lines, random);
    std::ranges::shuffle(renamed.switches, random);
    const double shuffled_s = compute(network_of(renamed.text()), op, bytes, {members}).seconds;
    BOOST_TEST(std::abs(shuffled_s - time.seconds) <= 1e-9 * time.seconds);

    // Another network has another time.
    const network other = network_of(draw_network(seed + 1000).text());
    const uint32_t both = std::min(n.devices(), other.devices());
    if (both > 1)
      BOOST_TEST(compute(n, op, bytes, {first_devices(both)}).seconds !=
                 compute(other, op, bytes, {first_devices(both)}).seconds);
  }
  BOOST_TEST(num_levels > 20U);
  BOOST_TEST(num_faster > 200U);
}

BOOST_AUTO_TEST_CASE(the_place_of_ranks_and_oversubscription_change_the_time) {
  const network n = two_by_two(", oversubscription: 2");
  const double near = compute(n, what::all_reduce, 400, {{0, 1}}).seconds;
  const double far = compute(n, what::all_reduce, 400, {{0, 2}}).seconds;
  BOOST_TEST(near == far);  // alone, a pair of devices has enough of the uplink
  BOOST_TEST(compute(n, what::all_reduce, 400, {{0, 1}, {2, 3}}).seconds == near);
  BOOST_TEST(compute(n, what::all_reduce, 400, {{0, 2}, {1, 3}}).seconds == 2 * near);
  BOOST_TEST(compute(n, what::all_reduce, 400, {{0, 2, 1, 3}}, how::ring).seconds ==
             2 * compute(n, what::all_reduce, 400, {{0, 1, 2, 3}}, how::ring).seconds);
}

BOOST_AUTO_TEST_CASE(an_all_reduce_of_4096_ranks_takes_less_than_a_second) {
  const auto n = *check_ok(read_network(std::string(troupe::places::source_dir) + "/hardware/h100_512.yaml"));
  const groups all = {first_devices(n.devices())};
  const std::pair<double, how> rows[] = {{1e3, how::tree}, {1e6, how::pairs}, {1e9, how::two_levels}};
  for (const auto& [bytes, fastest] : rows) {
    const auto begin = std::clock();
    const auto time = compute(n, what::all_reduce, bytes, all);
    const double cpu_s = double(std::clock() - begin) / CLOCKS_PER_SEC;
    BOOST_TEST_MESSAGE(bytes << " bytes over 4,096 ranks: " << cpu_s << " s of a core");
    BOOST_TEST((time.how == fastest), bytes << " by " << name_of(time.how));
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    BOOST_TEST(cpu_s < 1);
#endif
  }
  // Two levels: 14 phases of 1/8 GB at 450 GB/s, and 1022 phases of 1/4096 GB at 25 GB/s: 32 flows of each leaf's
  // uplinks.
  const double inside = 14 * (1e9 / 8 / 4.5e11 + 1e-6), flow = 1e9 / 4096 / 5e10;
  const double between = 1022 * (flow + 3e-6);  // only one flow of 32 leaves its leaf
  BOOST_TEST(compute(n, what::all_reduce, 1e9, all).seconds == inside + between, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(each_group_has_the_time_of_its_own_transfers) {
  const network uplinks = two_by_two(", oversubscription: 2");
  const auto near = compute(uplinks, what::all_gather, 200, {{0, 1}, {2, 3}});
  BOOST_TEST(near.group_seconds == (std::vector<double>{10, 10}), boost::test_tools::per_element());
  BOOST_TEST(near.seconds == 10.0);
  const auto far = compute(uplinks, what::all_gather, 200, {{0, 2}, {1, 3}});
  BOOST_TEST(far.group_seconds == (std::vector<double>{20, 20}), boost::test_tools::per_element());
  // Two pairs of one box, of which one has slow links, do not wait for each other.
  const network box = network_of(
      "kind: network\nnodes: [{name: box, devices: 4}]\nlinks:\n"
      "  - {from: box.device0, to: box.device1, bandwidth_bytes_per_s: 10, latency_s: 0, direction: both}\n"
      "  - {from: box.device1, to: box.device2, bandwidth_bytes_per_s: 10, latency_s: 0, direction: both}\n"
      "  - {from: box.device2, to: box.device3, bandwidth_bytes_per_s: 2, latency_s: 1, direction: both}\n");
  const auto apart = compute(box, what::all_gather, 200, {{0, 1}, {2, 3}});
  BOOST_TEST(apart.group_seconds == (std::vector<double>{10, 51}), boost::test_tools::per_element());
  BOOST_TEST(apart.seconds == 51.0);
  BOOST_TEST(compute(box, what::all_gather, 200, {{3}}).group_seconds.front() == 0.0);
}

BOOST_AUTO_TEST_CASE(in_a_thousand_networks_a_group_is_never_faster_in_company) {
  size_t num_slower = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const network n = network_of(draw_network(seed).text());
    const what op = all_collectives[seed % 4];  // a broadcast alone may have other chunks
    const double bytes = std::pow(10.0, double(random() % 10));
    auto members = first_devices(n.devices());
    if (members.size() < 4) continue;
    std::ranges::shuffle(members, random);
    const auto half = static_cast<std::ptrdiff_t>(members.size() / 2);
    const groups both = {device_group(members.begin(), members.begin() + half),
                         device_group(members.begin() + half, members.begin() + 2 * half)};
    BOOST_TEST_INFO_SCOPE("seed " << seed << ", " << name_of(op) << " of " << bytes << " bytes");
    const auto together = compute(n, op, bytes, both);
    BOOST_TEST_REQUIRE(together.group_seconds.size() == 2U);
    std::vector<double> link_bytes(n.links.size());
    for (size_t g = 0; g < both.size(); ++g) {
      const auto alone = compute(n, op, bytes, {both[g]}, together.how);
      BOOST_TEST(together.group_seconds[g] >= alone.seconds * (1 - 1e-9));
      BOOST_TEST(together.group_seconds[g] <= together.seconds * (1 + 1e-9));
      num_slower += together.group_seconds[g] > alone.seconds * (1 + 1e-9) ? 1 : 0;
      for (size_t i = 0; i < link_bytes.size(); ++i) link_bytes[i] += alone.link_bytes[i];
    }
    for (size_t i = 0; i < link_bytes.size(); ++i)
      BOOST_TEST(std::abs(together.link_bytes[i] - link_bytes[i]) <= 1e-9 * link_bytes[i]);
  }
  BOOST_TEST(num_slower > 100U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_computed_is_refused) {
  const network n = two_by_two("");
  network_routes routes(n);
  const auto refused = [&](const groups& all, double bytes = 1, std::optional<how> only = {},
                           what op = what::all_reduce) { return time_of(op, bytes, all, routes, only); };
  check_error(refused({}), "a collective: wanted at least one group of devices, got none");
  check_error(refused({{}}), "a collective: wanted at least one group of devices, got none");
  check_error(refused({{0, 1}, {2}}), "a collective: wanted groups of one size, got 2 and 1 devices");
  check_error(refused({{0, 4}}), "a collective: wanted one of 4 devices, got device 4");
  check_error(refused({{0, 1}, {1, 2}}), "a collective: wanted each device in one group, got node0.device1 twice");
  check_error(refused({{0, 1}}, -1), "a collective: wanted bytes of at least 0, got -1");
  check_error(refused({{0, 1}}, std::nan("")), "a collective: wanted bytes of at least 0, got nan");
  check_error(refused({{0, 1, 2}}, 1, how::two_levels),
              "all_reduce by two_levels: the algorithm has no such collective for these groups");
  check_error(refused({{0, 1}}, 1, how::tree, what::all_to_all),
              "all_to_all by tree: the algorithm has no such collective for these groups");
}

BOOST_AUTO_TEST_SUITE_END()
