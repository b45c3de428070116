// Tests files of networks: patterns of names, what is refused and how it is said.
#include "sim/network/read_network.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "sim/network/end_pattern.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/sim/network/samples.hpp"

BOOST_AUTO_TEST_SUITE(read_network)

using namespace troupe;
using namespace troupe::sim;
using tests::check_error;
using tests::check_failed;
using tests::check_ok;

namespace {

const std::string good =
    "kind: network\n"
    "nodes:\n"
    "  - {name: node, count: 4, devices: 2, switches: [{name: hub}]}\n"
    "switches:\n"
    "  - {name: leaf, count: 2, oversubscription: 2}\n"
    "  - {name: spine}\n"
    "links:\n"
    "  - {from: node(n).device(d), to: node(n).hub, bandwidth_bytes_per_s: 4.0e+9, latency_s: 1.0e-6, direction: "
    "both}\n"
    "  - {from: node(n).hub, to: leaf(n/2), bandwidth_bytes_per_s: 1.0e+9, latency_s: 2.0e-6, direction: both}\n"
    "  - {from: leaf(l), to: spine, bandwidth_bytes_per_s: 3.0e+9, latency_s: 0, direction: both, cost: 3}\n";

std::string with(const std::string& before, const std::string& after) {
  std::string out = good;
  const size_t at = out.find(before);
  BOOST_TEST_REQUIRE(at != std::string::npos, before);
  return out.replace(at, before.size(), after);
}

/// Returns the path of a network that the program contains.
std::string shipped(const std::string& name) {
  return std::string(troupe::places::source_dir) + "/hardware/" + name + ".yaml";
}

std::set<std::string> links_of(const network& n) {
  std::set<std::string> out;
  for (const auto& l : n.links) out.insert(n.vertex_names[l.from] + " " + n.vertex_names[l.to]);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_describes_devices_switches_and_links_by_patterns) {
  const network n = network_of(good);
  BOOST_TEST(n.devices() == 8U);
  BOOST_TEST(n.vertices() == 15U);
  BOOST_TEST(n.vertex_names[0] == "node0.device0");
  BOOST_TEST(n.vertex_names[3] == "node1.device1");
  BOOST_TEST(n.node_of_device[3] == 1U);
  BOOST_TEST(n.node_names[3] == "node3");
  BOOST_TEST(n.links.size() == 28U);
  const auto links = links_of(n);
  for (const char* one :
       {"node2.device1 node2.hub", "node2.hub node2.device1", "node1.hub leaf0", "leaf1 node2.hub", "spine leaf1"})
    BOOST_TEST(links.contains(one), one);
  BOOST_TEST(!links.contains("node1.hub leaf1"));
  // Two limits of each leaf: half of what its two links from below carry.
  BOOST_TEST(n.capacities.size() == 32U);
  for (size_t i = 28; i < 32; ++i) BOOST_TEST(n.capacities[i] == 1e9);
  for (const auto& l : n.links) {
    const std::string ends = n.vertex_names[l.from] + n.vertex_names[l.to];
    BOOST_TEST((l.limit != network_link::no_limit) == (ends.find("spine") != std::string::npos));
    BOOST_TEST(l.cost == (ends.find("spine") != std::string::npos ? 3U : 1U));
  }
  for (uint32_t v = 0; v < n.vertices(); ++v) {
    for (const uint32_t i : n.links_from(v)) BOOST_TEST(n.links[i].from == v);
    for (const uint32_t i : n.links_to(v)) BOOST_TEST(n.links[i].to == v);
  }
}

BOOST_AUTO_TEST_CASE(indices_are_calculated_from_left_to_right_and_directions_are_kept) {
  const auto of = [](const char* text, uint64_t n) {
    return check_ok(parse_end(text))->parts[0].index->value([&](const std::string&) { return n; });
  };
  BOOST_TEST(of("x(n+1%4)", 3).value() == 0U);
  BOOST_TEST(of("x(n/2*8+n)", 5).value() == 21U);
  BOOST_TEST(of("x(7)", 0).value() == 7U);
  BOOST_TEST(!of("x(n-1)", 0).has_value());
  BOOST_TEST(!of("x(3/n)", 0).has_value());
  BOOST_TEST(!of("x(n*2147483648)", 2).has_value());
  for (const char* wrong : {"", "a.", ".a", "a.b.c", "a(", "a()", "a(n", "a(n+)", "a(+n)", "a(N)", "a(n^2)", "a b",
                            "a(n)b", "a(99999999999999999999)"})
    check_failed(parse_end(wrong), core::error_kind::bad_input, "wanted a name such as leaf0");
  const network ring = network_of(
      "kind: network\nnodes: [{name: n, count: 3, devices: 1}]\nlinks:\n"
      "  - {from: n(i).device0, to: n(i+1%3).device0, bandwidth_bytes_per_s: 5, latency_s: 0, direction: forward}\n");
  BOOST_TEST((links_of(ring) ==
              std::set<std::string>{"n0.device0 n1.device0", "n1.device0 n2.device0", "n2.device0 n0.device0"}));
  // A pattern links nothing with itself.
  const network mesh = network_of(
      "kind: network\nnodes: [{name: box, devices: 4}]\nlinks:\n"
      "  - {from: box.device(a), to: box.device(b), bandwidth_bytes_per_s: 5, latency_s: 0, direction: backward}\n");
  BOOST_TEST(mesh.links.size() == 12U);
  BOOST_TEST(network_of("kind: network\nnodes: [{name: box, devices: 1}]\n").links.empty());
}

BOOST_AUTO_TEST_CASE(every_shipped_network_can_be_read_for_any_number_of_ranks) {
  struct row {
    const char* name;
    uint32_t devices_of_node;
    double inside_bytes_per_s, outside_bytes_per_s;
  };
  for (const row& r : {row{"dgx_a100", 8, 3e11, 2.5e10}, row{"dgx_h100", 8, 4.5e11, 5e10},
                       row{"dgx_b200", 8, 9e11, 5e10}, row{"ethernet_10g", 1, 1.25e9, 1.25e9}})
    for (const uint32_t ranks : {0U, 1U, 8U, 9U, 20U, 4096U}) {
      BOOST_TEST_INFO_SCOPE(r.name << " for " << ranks << " ranks");
      const auto n = *check_ok(sim::read_network(shipped(r.name), ranks));
      const uint32_t nodes = std::max(1U, (ranks + r.devices_of_node - 1) / r.devices_of_node);
      BOOST_TEST(n.node_names.size() == nodes);
      BOOST_TEST(n.devices() == nodes * r.devices_of_node);
      BOOST_TEST(n.links.front().bytes_per_s == r.inside_bytes_per_s);
      BOOST_TEST(n.links.back().bytes_per_s == r.outside_bytes_per_s);
    }
  const auto n = *check_ok(sim::read_network(shipped("h100_512"), 9));
  BOOST_TEST(n.devices() == 4096U);
  BOOST_TEST(links_of(n).contains("node33.device2 leaf10"));
  // A rail connects the devices of one number.
  const auto rails = links_of(*check_ok(sim::read_network(shipped("dgx_h100"), 16)));
  BOOST_TEST(rails.contains("node1.device3 rail3"));
  BOOST_TEST(!rails.contains("node1.device3 rail2"));
}

BOOST_AUTO_TEST_CASE(nodes_as_needed_fill_up_what_other_nodes_do_not_have) {
  const std::string more = with("count: 4, devices: 2", "count: as_needed, devices: 2");
  const auto devices = [](const std::string& text, uint32_t ranks) {
    return check_ok(parse_network(text, "net.yaml", ranks))->devices();
  };
  // The links of this file are for two leaves of two nodes each.
  BOOST_TEST(devices(more, 5) == 6U);
  BOOST_TEST(devices(more, 8) == 8U);
  check_error(parse_network(more, "net.yaml", 9),
              "net.yaml:9: links[1]: a link to nowhere: wanted leaf 0 to 1, got 2 for n = 4");
  const std::string mixed =
      "kind: network\nnodes: [{name: old, count: 3, devices: 2}, {name: new, count: as_needed, devices: 4}]\n"
      "switches: [{name: hub}]\nlinks:\n"
      "  - {from: old(n).device(d), to: hub, bandwidth_bytes_per_s: 1, latency_s: 0, direction: both}\n"
      "  - {from: new(n).device(d), to: hub, bandwidth_bytes_per_s: 1, latency_s: 0, direction: both}\n";
  BOOST_TEST(devices(mixed, 1) == 10U);
  BOOST_TEST(devices(mixed, 10) == 10U);
  BOOST_TEST(devices(mixed, 11) == 14U);
  check_error(parse_network(mixed, "net.yaml", 4'000'000'000U),
              "net.yaml:2: wanted at most 262144 devices and switches in all, got more");
  std::string twice = mixed;
  twice.replace(twice.find("count: 3"), 8, "count: as_needed");
  check_error(parse_network(twice, "net.yaml"),
              "net.yaml:2: new: only one entry of nodes can have count: as_needed, and old has it");
  check_error(parse_network(with("{name: leaf, count: 2", "{name: leaf, count: as_needed"), "net.yaml"),
              "net.yaml:5: switches[0].count: wanted an integer from 1 to 262144, got as_needed");
}

BOOST_AUTO_TEST_CASE(a_constant_may_say_its_unit_meaning_and_source) {
  const std::string long_rate = "{value: 4.0e+9, unit: B/s, meaning: a link, source: a data sheet}";
  const network n = network_of(with("4.0e+9", long_rate));
  BOOST_TEST(n.links.front().bytes_per_s == 4e9);
  const network plain = network_of(good);
  const network long_ratio =
      network_of(with("oversubscription: 2", "oversubscription: {value: 2, unit: ratio, meaning: m, source: s}"));
  BOOST_TEST(long_ratio.capacities == plain.capacities, boost::test_tools::per_element());
  BOOST_TEST(network_of(with("devices: 2", "devices: {value: 2, unit: devices, meaning: m, source: s}")).devices() ==
             8U);
  const auto changed = [&](const std::string& piece, const std::string& instead) {
    std::string rate = long_rate;
    rate.replace(rate.find(piece), piece.size(), instead);
    return parse_network(with("4.0e+9", rate), "net.yaml");
  };
  const std::string at = "net.yaml:8: links[0].bandwidth_bytes_per_s";
  check_error(changed("B/s", "GB/s"), at + ".unit: wanted B/s, got GB/s");
  check_error(changed(", source: a data sheet", ""), at + ".source is missing");
  check_error(changed(", meaning: a link", ""), at + ".meaning is missing");
  check_error(changed("unit: B/s, ", ""), at + ".unit is missing");
  check_error(changed("value: 4.0e+9, ", ""), at + ".value is missing");
  check_error(changed("4.0e+9", "-1"), at + ".value: wanted a finite number above 0, got -1");
  check_error(changed("meaning", "meanign"), at + ".meanign: unknown key, the nearest is meaning");
}

BOOST_AUTO_TEST_CASE(what_is_missing_unknown_or_out_of_range_is_named_with_its_line) {
  const std::string link = ", bandwidth_bytes_per_s: 4.0e+9, latency_s: 1.0e-6, direction: both}";
  const std::string islands =
      std::regex_replace(good, std::regex(", oversubscription: 2|  - \\{name: spine\\}\n|  - \\{from: leaf.*\n"), "");
  const std::pair<std::string, std::string> wrong[] = {
      {with("kind: network\n", ""), "net.yaml:1: kind is missing"},
      {with("kind: network", "kind: card"), "net.yaml:1: kind: wanted network, got card"},
      {with("latency_s: 1.0e-6, ", ""), "net.yaml:8: links[0].latency_s is missing"},
      {with("bandwidth_bytes_per_s: 4.0e+9, ", ""), "net.yaml:8: links[0].bandwidth_bytes_per_s is missing"},
      {with("latency_s: 1.0e-6, direction: both", "latency_s: 1.0e-6"), "net.yaml:8: links[0].direction is missing"},
      {with("4.0e+9", "-4.0e+9"),
       "net.yaml:8: links[0].bandwidth_bytes_per_s: wanted a finite number above 0, got -4.0e+9"},
      {with("4.0e+9", "0"), "net.yaml:8: links[0].bandwidth_bytes_per_s: wanted a finite number above 0, got 0"},
      {with("4.0e+9", ".inf"), "net.yaml:8: links[0].bandwidth_bytes_per_s: wanted a finite number above 0, got .inf"},
      {with("1.0e-6", "-1"), "net.yaml:8: links[0].latency_s: wanted a finite number of at least 0, got -1"},
      {with("1.0e-6", "fast"), "net.yaml:8: links[0].latency_s: wanted a finite number of at least 0, got fast"},
      {with("direction: both", "direction: up"),
       "net.yaml:8: links[0].direction: wanted both, forward or backward, got up"},
      {with("latency_s: 1.0e-6", "latency_us: 1"),
       "net.yaml:8: links[0].latency_us: unknown key, the nearest is latency_s"},
      {with("cost: 3", "cost: 0"), "net.yaml:10: links[2].cost: wanted an integer from 1 to 1000, got 0"},
      {with("oversubscription: 2", "oversubscription: 0.5"),
       "net.yaml:5: switches[0].oversubscription: wanted a finite number of at least 1 and at most 1000, got 0.5"},
      {with("devices: 2, ", ""), "net.yaml:3: nodes[0].devices is missing"},
      {with("devices: 2", "devices: -2"), "net.yaml:3: nodes[0].devices: wanted an integer from 1 to 262144, got -2"},
      {with("count: 4", "count: 400000"), "net.yaml:3: nodes[0].count: wanted an integer from 1 to 262144, got 400000"},
      {with("count: 4, devices: 2", "count: 1000, devices: 1000"),
       "net.yaml:3: wanted at most 262144 devices and switches in all, got more"},
      {with("name: spine", "name: spi ne"),
       "net.yaml:6: switches[1].name: wanted at most 60 letters, digits, '_' and '-', got spi ne"},
      {with("name: leaf", "name: leaf1"),
       "net.yaml:5: switches[0].name: leaf1 has a count, so its name cannot end in a digit"},
      {with("name: spine", "name: leaf1"), "net.yaml:6: leaf1 is given twice, first at line 5"},
      {with("[{name: hub}]", "[]"), "net.yaml:3: nodes[0].switches: wanted a list of at least one item, got []"},
      {with("to: spine", "to: spin"),
       "net.yaml:10: links[2].to: a link to nowhere, spin: there is no spin, the nearest is spine"},
      {with("to: leaf(n/2)", "to: leaf2"),
       "net.yaml:9: links[1].to: a link to nowhere, leaf2: there is no leaf2, the nearest is leaf0"},
      {with("to: leaf(n/2)", "to: leaf(n)"),
       "net.yaml:9: links[1]: a link to nowhere: wanted leaf 0 to 1, got 2 for n = 2"},
      {with("to: leaf(n/2)", "to: leaf(n-1)"),
       "net.yaml:9: links[1]: a link to nowhere: wanted leaf 0 to 1, got no such number for n = 0"},
      {with("to: leaf(n/2)", "to: leaf(m/2)"),
       "net.yaml:9: links[1]: m has no range: write (m) alone before it is calculated with"},
      {with("to: spine", "to: spine(s)"),
       "net.yaml:10: links[2].to: a link to nowhere, spine(s): there is no spine with a count, the nearest is spine"},
      {with("to: node(n).hub", "to: node(n).hob"),
       "net.yaml:8: links[0].to: a link to nowhere, node(n).hob: there is no hob, the nearest is hub"},
      {with("from: node(n).device(d)", "from: node(n)"),
       "net.yaml:8: links[0].from: node(n) is a node; wanted a device or a switch in it, such as node(n).device0"},
      {with("to: spine", "to: spine.hub"),
       "net.yaml:10: links[2].to: spine is a switch and has no parts, got spine.hub"},
      {with("to: spine", "to: a b"),
       "net.yaml:10: links[2].to: wanted a name such as leaf0, node(n).device(d) or leaf(n/8), got a b"},
      {good + "  - {from: leaf0, to: leaf0" + link,
       "net.yaml:11: links[3]: wanted a link between two things, got leaf0 twice"},
      {good + "  - {from: spine, to: leaf1" + link,
       "net.yaml:11: links[3]: spine and leaf1 are linked twice, first at line 10: give one link the sum of the "
       "bandwidths"},
      {with("  - {name: spine}\n", "  - {name: spine}\n  - {name: spare}\n"), "net.yaml:7: switch spare has no link"},
      {with("{name: hub}", "{name: hub, oversubscription: 1}"), ""},
      {with("{name: spine}", "{name: spine, oversubscription: 2}"),
       "net.yaml:6: switch spine: oversubscription wants links `to` the switch and links `from` it, in the same "
       "directions"},
      {with("latency_s: 2.0e-6, direction: both", "latency_s: 2.0e-6, direction: forward"),
       "net.yaml:5: switch leaf0: oversubscription wants links `to` the switch and links `from` it, in the same "
       "directions"},
      {islands,
       "net.yaml:3: device node2.device0 cannot be reached: no way over links leads from node0.device0 to "
       "node2.device0"},
      {"[]", "net.yaml:1: the file: wanted a mapping, got []"},
      {"kind: network\nlinks: {a", "net.yaml:2: "},
      {"kind: network\nkind: network\n", "net.yaml:2: kind: "}};
  for (const auto& [text, words] : wrong) {
    BOOST_TEST_INFO_SCOPE(words);
    if (words.empty())
      check_ok(parse_network(text, "net.yaml"));
    else if (words.ends_with(": "))
      check_failed(parse_network(text, "net.yaml"), core::error_kind::bad_input, words);
    else
      check_error(parse_network(text, "net.yaml"), words);
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_reaches_but_is_not_reached_is_named) {
  const std::string text =
      "kind: network\nnodes:\n  - {name: a, devices: 1}\n  - {name: b, devices: 1}\nlinks:\n"
      "  - {from: b.device0, to: a.device0, bandwidth_bytes_per_s: 5, latency_s: 0, direction: forward}\n";
  check_error(parse_network(text, "net.yaml"),
              "net.yaml:4: device b.device0 cannot be reached: no way over links leads from a.device0 to b.device0");
  check_error(parse_network(std::regex_replace(text, std::regex("forward"), "backward"), "net.yaml"),
              "net.yaml:4: device b.device0 cannot be reached: no way over links leads from b.device0 to a.device0");
}

BOOST_AUTO_TEST_CASE(too_many_links_and_files_that_cannot_be_read_are_refused) {
  check_failed(parse_network("kind: network\nnodes: [{name: n, devices: 2000}]\nlinks:\n  - {from: n.device(a), to: "
                             "n.device(b), bandwidth_bytes_per_s: 1, latency_s: 0, direction: forward}\n",
                             "net.yaml"),
               core::error_kind::bad_input, "net.yaml:4: links[0]: wanted at most 1048576 links in all, got more");
  const tests::scratch_folder folder;
  check_failed(sim::read_network(folder / "none.yaml"), core::error_kind::bad_input,
               "none.yaml: the file does not exist");
  folder.write("net.yaml", good);
  BOOST_TEST(check_ok(sim::read_network(folder / "net.yaml"))->devices() == 8U);
}

BOOST_AUTO_TEST_SUITE_END()
