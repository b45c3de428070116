// Tests the plan of each member's transfers for an operation: that the plans of all members match, and how many bytes
// are sent between machines.
#include "fabric/wire/traffic.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <numeric>
#include <random>

#include "fabric/layout.hpp"
#include "tests/check_ok.hpp"
#include "tests/fabric/operands.hpp"

BOOST_AUTO_TEST_SUITE(traffic)

namespace {

using namespace troupe;
using namespace troupe::fabric;
using core::dtype;
using troupe::tests::check_failed;

/// Returns machines with the given numbers of members; each machine has one process.
homes machines_of(const std::vector<uint32_t>& counts) {
  std::vector<home> out;
  for (uint32_t k = 0; k < counts.size(); ++k) out.insert(out.end(), counts[k], home{k, k});
  return *homes::make(out);
}

request with(operation op, std::span<const piece> pieces, dtype type = dtype::f32) {
  request r;
  r.op = op;
  r.pieces = pieces;
  r.input_type = r.output_type = r.communication = type;
  return r;
}

/// Returns a piece of `count` elements for each member.
std::vector<piece> even_pieces(uint32_t members, uint64_t count) {
  std::vector<piece> out;
  for (uint32_t m = 0; m < members; ++m) out.push_back({m, m * count, m * count, count});
  return out;
}

uint64_t sum(const std::vector<uint64_t>& x) { return std::accumulate(x.begin(), x.end(), uint64_t{0}); }

/// A transfer between two members on different machines.
struct crossing {
  uint32_t from = 0, to = 0;
  uint64_t part = 0, bytes = 0;
  friend auto operator<=>(const crossing&, const crossing&) = default;
};

/// All transfers that the plans of all members send, and all that they receive.
struct crossings {
  std::vector<crossing> sent, received;
};
crossings crossings_of(const request& r, const homes& where, const wire_limits& limits) {
  crossings out;
  const uint64_t in_size = core::size_of(r.input_type), result = core::size_of(result_type(r));
  const uint64_t partial = result_type(r) == dtype::f64 ? 8 : 4;
  for (uint32_t me = 0; me < where.size(); ++me) {
    const wire_traffic t = traffic_of(r, where, me, limits);
    const uint32_t machine = where.machine_of(me);
    for (const auto& s : t.sends) out.sent.push_back({me, s.to, s.part, s.bytes});
    for (const auto& l : t.landings) out.received.push_back({l.from, me, l.part, l.bytes});
    for (const auto& c : t.chunks) {
      const wire_sum& s = t.sums[c.sum];
      if (s.continues)
        out.received.push_back({*s.continues, me, part_of_partial(c, where, machine), c.count * partial});
      for (const uint32_t m : s.inputs)
        if (where.machine_of(m) != machine)
          out.received.push_back({m, me, part_of_contribution(c, m), c.count * in_size});
      if (s.passes_to)
        out.sent.push_back(
            {me, *s.passes_to, part_of_partial(c, where, where.machine_of(*s.passes_to)), c.count * partial});
      for (const uint32_t m : s.results_to)
        out.sent.push_back({me, m, part_of_result(c, where, where.machine_of(m)), c.count * result});
    }
    for (const auto& c : t.result_chunks)
      out.received.push_back({t.results[c.sum].from, me, part_of_result(c, where, machine), c.count * result});
  }
  std::ranges::sort(out.sent);
  std::ranges::sort(out.received);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(members_of_a_machine_have_to_be_neighbours) {
  check_failed(homes::make({{0, 0}, {1, 1}, {0, 2}}), "got member 2 on machine 0 after members of machine 1");
  BOOST_REQUIRE(!homes::make({{0, 4}, {1, 4}}));
  const auto good = homes::make({{8, 3}, {2, 1}, {2, 0}});
  BOOST_REQUIRE(good.has_value());
  BOOST_TEST(good->machines() == 2U);
  BOOST_TEST(good->machine_of(2) == 1U);
  BOOST_TEST(good->first(1) == 1U);
  BOOST_TEST(good->count(1) == 2U);
  BOOST_TEST(good->carrier(1) == 1U);
}

BOOST_AUTO_TEST_CASE(limits_too_small_for_two_chunks_are_refused) {
  BOOST_TEST(check_limits({}, 8'192).has_value());
  check_failed(check_limits({.incoming_bytes = 4'000}, 4), "of 4 members was wanted, 4096 bytes of incoming");
}

BOOST_AUTO_TEST_CASE(every_transfer_has_two_ends_and_the_bytes_of_the_formula) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    std::vector<uint32_t> counts(1 + random() % 4);
    for (auto& c : counts) c = static_cast<uint32_t>(1 + random() % 3);
    const homes where = machines_of(counts);
    const operation ops[] = {operation::all_gather, operation::broadcast, operation::reduce_scatter,
                             operation::all_reduce, operation::all_to_all};
    const operation op = ops[random() % 5];
    const dtype types[] = {dtype::bf16, dtype::f32, dtype::f64};
    std::vector<piece> pieces;
    if (op == operation::all_to_all)
      pieces = even_pieces(where.size(), 10 + random() % 3'000);
    else if (op == operation::reduce_scatter && where.size() % 2 == 0)
      pieces = tests::pieces_of_replicas(where.size(), where.size() / 2, false, 4, 5'000, random);
    else
      pieces = tests::ragged_pieces(op, where.size(), false, 4, 5'000, random);
    request r = with(op, pieces, types[random() % 3]);
    if (is_reduction(op)) r.communication = types[random() % 3];
    wire_limits limits{
        .incoming_bytes = 100'000, .outgoing_bytes = 4'096, .result_bytes = 4'096, .transfer_bytes = 999};
    BOOST_REQUIRE(check_limits(limits, where.size()).has_value());

    const auto all = crossings_of(r, where, limits);
    BOOST_TEST((all.sent == all.received));
    std::vector<uint64_t> bytes(where.machines());
    std::map<std::array<uint64_t, 3>, int> names;
    for (const auto& c : all.received) {
      BOOST_TEST(!where.are_neighbours(c.from, c.to));
      bytes[where.machine_of(c.to)] += c.bytes;
      BOOST_TEST((++names[{where.place_of(c.from), where.place_of(c.to), c.part}]) == 1, "a name is used twice");
    }
    BOOST_TEST((bytes == wire_bytes(r, where)), name_of(op));
  }
}

BOOST_AUTO_TEST_CASE(a_gathered_piece_enters_each_machine_once_and_members_land_alike) {
  const homes where = machines_of({2, 2, 4});
  const auto pieces = even_pieces(8, 1'000);
  const request r = with(operation::all_gather, pieces);
  BOOST_TEST((wire_bytes(r, where) == std::vector<uint64_t>{24'000, 24'000, 16'000}));
  for (uint32_t m = 4; m < 8; ++m) {
    BOOST_TEST_INFO_SCOPE("m " << m);
    const auto t = traffic_of(r, where, m, {});
    BOOST_TEST(t.landings.size() == 1U);
    BOOST_TEST(t.landings.at(0).spread);
    BOOST_TEST(t.copies.size() == 4U);
    BOOST_TEST(t.sends.size() == 2U);
  }
}

BOOST_AUTO_TEST_CASE(gathers_and_sums_over_machines_of_one_member_take_no_more_than_a_ring) {
  for (const uint32_t n : {2U, 3U, 4U, 7U}) {
    BOOST_TEST_INFO_SCOPE("n " << n);
    const homes where = machines_of(std::vector<uint32_t>(n, 1));
    const auto pieces = even_pieces(n, 6'400);
    const uint64_t ring = (n - 1) * 6'400 * 4;
    for (const operation op : {operation::all_gather, operation::reduce_scatter})
      for (const uint64_t entered : wire_bytes(with(op, pieces), where))
        BOOST_TEST_CONTEXT("entered " << entered) BOOST_TEST(entered == ring);
    BOOST_TEST(sum(wire_bytes(with(operation::all_reduce, pieces), where)) == 2 * n * ring);
  }
}

BOOST_AUTO_TEST_CASE(a_gather_takes_less_than_a_ring_where_machines_have_several_members) {
  for (const uint32_t machines : {2U, 3U})
    for (const uint32_t each : {2U, 4U}) {
      BOOST_TEST_INFO_SCOPE("each " << each);
      BOOST_TEST_INFO_SCOPE("machines " << machines);
      const homes where = machines_of(std::vector<uint32_t>(machines, each));
      const auto pieces = even_pieces(machines * each, 640);
      for (const uint64_t entered : wire_bytes(with(operation::all_gather, pieces), where))
        BOOST_TEST_CONTEXT("entered " << entered) BOOST_TEST(entered < (machines * each - 1) * uint64_t{640 * 4});
    }
}

BOOST_AUTO_TEST_CASE(a_sum_takes_the_cheaper_of_contributions_and_one_sum_that_is_passed_on) {
  const auto pieces = even_pieces(8, 6'400);
  const homes where = machines_of({4, 4});
  const uint64_t half = 4 * 6'400;  // number of elements that the members of one machine own
  // The sums in fp32 are sent to the second machine, and the sums of the elements that the first machine's members own
  // are sent back.
  BOOST_TEST(
      (wire_bytes(with(operation::reduce_scatter, pieces), where) == std::vector<uint64_t>{half * 4, 2 * half * 4}));
  // An unrounded fp32 sum is as large as two of the four contributions in bf16.
  BOOST_TEST((wire_bytes(with(operation::reduce_scatter, pieces, dtype::bf16), where) ==
              std::vector<uint64_t>{half * 2, 2 * half * 4}));
  // In the case of two members on each machine, the bf16 contributions are sent directly to the owners.
  const homes small = machines_of({2, 2});
  const auto four = even_pieces(4, 6'400);
  BOOST_TEST((wire_bytes(with(operation::reduce_scatter, four, dtype::bf16), small) ==
              std::vector<uint64_t>(2, 2 * 2 * 6'400 * 2)));
}

BOOST_AUTO_TEST_CASE(a_sum_with_one_bit_pattern_never_takes_more_than_contributions_or_a_chain_would) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    std::vector<uint32_t> counts(2 + random() % 3);
    for (auto& c : counts) c = static_cast<uint32_t>(1 + random() % 4);
    const homes where = machines_of(counts);
    const auto pieces = even_pieces(where.size(), 640);
    const uint64_t all = uint64_t{where.size()} * 640 * 4, k = where.machines();
    const uint64_t moved = sum(wire_bytes(with(operation::reduce_scatter, pieces), where));
    uint64_t straight = 0;
    for (uint32_t m = 0; m < where.size(); ++m) straight += (where.size() - where.count(where.machine_of(m))) * 640 * 4;
    BOOST_TEST(moved <= straight);
    BOOST_TEST(moved <= k * all);
  }
}

BOOST_AUTO_TEST_SUITE_END()
