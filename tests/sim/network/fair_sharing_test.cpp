// Tests max-min fair sharing: by hand, against a slow and plain simulation, and its bounds.
#include "sim/network/fair_sharing.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <vector>

#include "tests/sim/network/samples.hpp"

BOOST_AUTO_TEST_SUITE(fair_sharing)

using namespace troupe;
using namespace troupe::sim;

namespace {

/// Simulates transfers as simulate_transfers() does, plainly: at each event, the rates of all flows are computed anew.
std::vector<double> plain_simulation(network_routes& routes, const std::vector<transfer>& transfers) {
  const auto& capacities = routes.of().capacities;
  std::vector<std::vector<route_share>> shares(transfers.size());
  std::vector<double> left, sent(transfers.size(), -1);
  for (size_t i = 0; i < transfers.size(); ++i) {
    routes.append(transfers[i].from, transfers[i].to, shares[i]);
    left.push_back(transfers[i].bytes);
  }
  for (double now = 0;;) {
    std::vector<bool> waits(transfers.size());
    double next = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].start_s > now) next = std::min(next, transfers[i].start_s);
      if (transfers[i].start_s > now || sent[i] >= 0) continue;
      if (shares[i].empty() || left[i] <= 1e-12 * transfers[i].bytes)
        sent[i] = now;
      else
        waits[i] = true;
    }
    const auto active = waits;
    std::vector<double> rate(transfers.size());
    for (;;) {  // fills the resource with the smallest share
      double least = std::numeric_limits<double>::infinity();
      size_t full = 0;
      for (size_t r = 0; r < capacities.size(); ++r) {
        double free = capacities[r], weight = 0;
        for (size_t i = 0; i < transfers.size(); ++i)
          for (const auto& s : shares[i])
            if (s.resource == r && active[i])
              (waits[i] ? weight : free) += waits[i] ? s.fraction : -rate[i] * s.fraction;
        if (weight > 0 && free / weight < least) {
          least = free / weight;
          full = r;
        }
      }
      if (std::isinf(least)) break;
      for (size_t i = 0; i < transfers.size(); ++i)
        if (waits[i] && std::ranges::any_of(shares[i], [&](const auto& s) { return s.resource == full; })) {
          rate[i] = least;
          waits[i] = false;
        }
    }
    for (size_t i = 0; i < transfers.size(); ++i)
      if (active[i]) next = std::min(next, now + left[i] / rate[i]);
    if (std::isinf(next)) return sent;
    for (size_t i = 0; i < transfers.size(); ++i)
      if (active[i]) left[i] -= rate[i] * (next - now);
    now = next;
  }
}

std::vector<transfer> draw_transfers(std::mt19937_64& random, uint32_t devices, size_t count) {
  std::vector<transfer> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({.from = static_cast<uint32_t>(random() % devices),
                   .to = static_cast<uint32_t>(random() % devices),
                   .bytes = double(random() % 1'000'000'000),
                   .start_s = random() % 2 == 0 ? 0 : double(random() % 1000) / 1000});
  return out;
}

/// Returns the longest of the times in which each resource carries its bytes.
double busiest_s(network_routes& routes, const std::vector<transfer>& transfers) {
  std::vector<double> bytes(routes.of().capacities.size());
  for (const auto& t : transfers) {
    std::vector<route_share> shares;
    routes.append(t.from, t.to, shares);
    for (const auto& s : shares) bytes[s.resource] += s.fraction * t.bytes;
  }
  double out = 0;
  for (size_t r = 0; r < bytes.size(); ++r) out = std::max(out, bytes[r] / routes.of().capacities[r]);
  return out;
}

double last(const std::vector<double>& times) { return *std::ranges::max_element(times); }

}  // namespace

BOOST_AUTO_TEST_CASE(flows_share_a_link_and_use_what_others_leave) {
  const network n = star(4, 10, 0.25);
  network_routes routes(n);
  // Two flows to device 2; a third one shares the link of device 0 until it has ended.
  const std::vector<transfer> all = {{.from = 0, .to = 2, .bytes = 100},
                                     {.from = 1, .to = 2, .bytes = 40},
                                     {.from = 0, .to = 3, .bytes = 20},
                                     {.from = 3, .to = 1, .bytes = 30, .start_s = 1},
                                     {.from = 3, .to = 3, .bytes = 9, .start_s = 2},
                                     {.from = 3, .to = 1, .bytes = 0, .start_s = 3}};
  const auto times = simulate_transfers(routes, all);
  const std::vector<double> sent = {14, 8, 4, 4, 2, 3};
  for (size_t i = 0; i < sent.size(); ++i) BOOST_TEST(times.sent_s[i] == sent[i], boost::test_tools::tolerance(1e-12));
  BOOST_TEST(times.latency_s[0] == 0.5);
  BOOST_TEST(times.latency_s[4] == 0.0);
  for (size_t i = 0; i < n.links.size(); ++i)
    if (n.links[i].from == 0) BOOST_TEST(times.link_bytes[i] == 120.0);
  BOOST_TEST(simulate_transfers(routes, {}).sent_s.empty());
}

BOOST_AUTO_TEST_CASE(an_oversubscribed_switch_divides_its_uplinks) {
  // Both nodes send all that they have to the other one: 20 B/s, half of it with oversubscription 2.
  const std::vector<transfer> all = {{.from = 0, .to = 2, .bytes = 100},
                                     {.from = 1, .to = 3, .bytes = 100},
                                     {.from = 2, .to = 0, .bytes = 100},
                                     {.from = 3, .to = 1, .bytes = 100}};
  for (const auto& [text, seconds] :
       {std::pair("", 10.0), {", oversubscription: 1", 10.0}, {", oversubscription: 2", 20.0}}) {
    const network n = two_by_two(text);
    network_routes routes(n);
    for (const double s : simulate_transfers(routes, all).sent_s) BOOST_TEST(s == seconds);
  }
  // Within a node nothing is divided.
  const network n = two_by_two(", oversubscription: 10");
  network_routes routes(n);
  BOOST_TEST(simulate_transfers(routes, std::vector<transfer>{{.from = 0, .to = 1, .bytes = 100}}).sent_s[0] == 10.0);
}

BOOST_AUTO_TEST_CASE(rates_are_those_of_a_plain_simulation) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    const network n = network_of(draw_network(seed).text());
    network_routes routes(n);
    std::mt19937_64 random(seed);
    const auto all = draw_transfers(random, n.devices(), 1 + seed % 20);
    const auto times = simulate_transfers(routes, all);
    const auto plain = plain_simulation(routes, all);
    for (size_t i = 0; i < all.size(); ++i)
      BOOST_TEST(std::abs(times.sent_s[i] - plain[i]) <= 1e-8 * plain[i], times.sent_s[i] << " " << plain[i]);
  }
}

BOOST_AUTO_TEST_CASE(transfers_of_one_size_take_what_the_busiest_resource_takes) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const network n = network_of(draw_network(seed).text());
    network_routes routes(n);
    std::mt19937_64 random(seed);
    auto all = draw_transfers(random, n.devices(), 1 + seed % 40);
    for (auto& t : all) {
      t.bytes = 1e8;
      t.start_s = 0;
    }
    const double wanted = busiest_s(routes, all), got = last(simulate_transfers(routes, all).sent_s);
    BOOST_TEST(std::abs(got - wanted) <= 1e-9 * wanted, "seed " << seed << ": " << got << " " << wanted);
  }
}

BOOST_AUTO_TEST_CASE(a_faster_link_can_delay_transfers_of_other_sizes_within_a_bound) {
  // Device 0 sends 1 B over a slow link; a sends 5 B through the links b and c, and another one sends 5 B through c. As
  // the slow link becomes faster, the flow through b and c gets less of b at first, and c is idle for some time in the
  // end.
  const auto seconds = [](double slow) {
    const network n = network_of(
        fmt::format("kind: network\nnodes: [{{name: n, devices: 6}}]\nswitches: [{{name: p}}, {{name: q}}]\nlinks:\n"
                    "  - {{from: n.device0, to: p, bandwidth_bytes_per_s: {}, latency_s: 0, direction: both}}\n"
                    "  - {{from: n.device1, to: p, bandwidth_bytes_per_s: 9, latency_s: 0, direction: both}}\n"
                    "  - {{from: p, to: q, bandwidth_bytes_per_s: 0.6, latency_s: 0, direction: both}}\n"
                    "  - {{from: n.device2, to: q, bandwidth_bytes_per_s: 9, latency_s: 0, direction: both}}\n"
                    "  - {{from: n.device3, to: q, bandwidth_bytes_per_s: 9, latency_s: 0, direction: both}}\n"
                    "  - {{from: n.device4, to: q, bandwidth_bytes_per_s: 1, latency_s: 0, direction: both}}\n"
                    "  - {{from: n.device5, to: q, bandwidth_bytes_per_s: 9, latency_s: 0, direction: both}}\n",
                    slow));
    network_routes routes(n);
    return last(simulate_transfers(routes, std::vector<transfer>{{.from = 0, .to = 2, .bytes = 1},
                                                                 {.from = 1, .to = 4, .bytes = 5},
                                                                 {.from = 3, .to = 4, .bytes = 5}})
                    .sent_s);
  };
  BOOST_TEST(seconds(0.1) == 10.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(seconds(0.3) > 10.8);
  // A transfer ends after at most the sum of bytes / bandwidth over its resources, whatever the others do.
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const network n = network_of(draw_network(seed).text());
    network_routes routes(n);
    std::mt19937_64 random(seed);
    auto all = draw_transfers(random, n.devices(), 1 + seed % 40);
    for (auto& t : all) t.start_s = 0;
    const auto times = simulate_transfers(routes, all);
    std::vector<double> bytes(n.capacities.size());
    std::vector<std::vector<route_share>> shares(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      routes.append(all[i].from, all[i].to, shares[i]);
      for (const auto& s : shares[i]) bytes[s.resource] += s.fraction * all[i].bytes;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      double most = 0;
      for (const auto& s : shares[i]) most += bytes[s.resource] / n.capacities[s.resource];
      BOOST_TEST(times.sent_s[i] <= most * (1 + 1e-9), "seed " << seed);
    }
    BOOST_TEST(last(times.sent_s) >= busiest_s(routes, all) * (1 - 1e-9), "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(ten_thousand_flows_of_different_sizes_are_simulated) {
  const network n = network_of(
      "kind: network\nnodes: [{name: node, count: 16, devices: 8, switches: [{name: hub}]}]\n"
      "switches: [{name: leaf, count: 4}, {name: spine}]\nlinks:\n"
      "  - {from: node(n).device(d), to: node(n).hub, bandwidth_bytes_per_s: 1.0e+10, latency_s: 0, direction: both}\n"
      "  - {from: node(n).hub, to: leaf(n/4), bandwidth_bytes_per_s: 2.0e+10, latency_s: 0, direction: both}\n"
      "  - {from: leaf(l), to: spine, bandwidth_bytes_per_s: 2.0e+10, latency_s: 0, direction: both}\n");
  network_routes routes(n);
  std::mt19937_64 random(1);
  const auto all = draw_transfers(random, n.devices(), 10'000);
  const auto begin = std::clock();
  const auto times = simulate_transfers(routes, all);
  BOOST_TEST_MESSAGE("10,000 flows: " << double(std::clock() - begin) / CLOCKS_PER_SEC << " s of a core");
  for (size_t i = 0; i < all.size(); ++i) BOOST_TEST(times.sent_s[i] >= all[i].start_s);
  // Each way over the spine carries about 3/16 of all bytes, so that its links decide.
  BOOST_TEST(last(times.sent_s) >= busiest_s(routes, all));
  BOOST_TEST(last(times.sent_s) <= busiest_s(routes, all) * 1.2 + 1);
}

BOOST_AUTO_TEST_SUITE_END()
