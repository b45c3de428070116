// Tests how a list of pieces is interpreted, and which lists are refused.
#include <boost/test/unit_test.hpp>

#include "fabric/layout.hpp"

BOOST_AUTO_TEST_SUITE(layout)

namespace {

using namespace troupe;
using namespace troupe::fabric;
using core::dtype;

request with(operation op, std::span<const piece> pieces, dtype type = dtype::f32) {
  request r;
  r.op = op;
  r.pieces = pieces;
  r.input_type = r.output_type = r.communication = type;
  return r;
}

bool refused(const core::result<void>& r, const std::string& words) {
  if (r) return false;
  if (r.error().text.find(words) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("got: " << r.error().text);
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(extents_hold_all_touched_elements) {
  const std::vector<piece> pieces{{0, 0, 100, 10}, {1, 4, 110, 20}, {1, 90, 900, 0}};
  const auto is = [&](operation op, uint32_t rank, uint64_t input, uint64_t output) {
    const extent e = extent_of(op, pieces, rank);
    BOOST_TEST(e.input == input, name_of(op));
    BOOST_TEST(e.output == output, name_of(op));
  };
  is(operation::all_gather, 0, 10, 130);
  is(operation::all_gather, 1, 24, 130);
  is(operation::all_gather, 2, 0, 130);
  is(operation::reduce_scatter, 0, 24, 110);
  is(operation::reduce_scatter, 2, 24, 0);
  is(operation::all_reduce, 2, 24, 130);
  is(operation::send_receive, 0, 10, 130);
  is(operation::send_receive, 1, 24, 110);
}

BOOST_AUTO_TEST_CASE(received_bytes_are_those_of_the_busiest_member) {
  const std::vector<piece> pieces{{0, 0, 0, 10}, {1, 0, 10, 30}, {2, 0, 40, 20}};
  BOOST_TEST(received_bytes(with(operation::all_gather, pieces), 3) == 50 * 4U);
  BOOST_TEST(received_bytes(with(operation::reduce_scatter, pieces), 3) == 30 * 2 * 4U);
  BOOST_TEST(received_bytes(with(operation::all_reduce, pieces), 3) == (30 * 2 + 30) * 4U);
  BOOST_TEST(received_bytes(with(operation::all_gather, pieces, dtype::f64), 3) == 50 * 8U);
  BOOST_TEST(received_bytes(with(operation::barrier, {}), 3) == 0U);
  BOOST_TEST(received_bytes(with(operation::broadcast, std::span(pieces).first(1)), 3) == 10 * 4U);
  auto narrow = with(operation::reduce_scatter, pieces);
  narrow.communication = dtype::bf16;
  BOOST_TEST(received_bytes(narrow, 3) == 30 * 2 * 2U);
}

BOOST_AUTO_TEST_CASE(a_shared_sum_costs_what_a_reduce_scatter_and_an_exchange_cost) {
  // The members form two groups of two; each range of 640 elements has an owner in both groups.
  const std::vector<piece> pieces{{0, 0, 0, 640}, {2, 0, 0, 640}, {1, 640, 640, 640}, {3, 640, 640, 640}};
  BOOST_TEST(received_bytes(with(operation::reduce_scatter, pieces), 4) == (320 * 3 + 320) * 4U);
  // A member receives 1280 (1 + 1/2 - 2/4) elements: a reduce-scatter within its group, then an all-reduce over the
  // groups.
  BOOST_TEST(received_bytes(with(operation::reduce_scatter, pieces), 4) == 1280 * 4U);
  BOOST_TEST(end_of_range(operation::reduce_scatter, pieces, 0) == 2U);
  BOOST_TEST(end_of_range(operation::all_reduce, pieces, 0) == 1U);
}

BOOST_AUTO_TEST_CASE(parts_of_a_shared_sum_follow_each_other) {
  for (const uint64_t count : {0, 1, 63, 64, 65, 1000, 4096})
    for (const size_t owners : {1, 2, 3, 7}) {
      BOOST_TEST_INFO_SCOPE("count " << count);
      BOOST_TEST_INFO_SCOPE("owners " << owners);
      uint64_t reached = 0;
      for (size_t which = 0; which < owners; ++which) {
        const owned_part x = part_of(count, owners, which);
        BOOST_TEST(x.first == reached);
        BOOST_TEST((x.first % part_grain == 0 || x.first == count));
        reached += x.count;
      }
      BOOST_TEST(reached == count);
    }
}

BOOST_AUTO_TEST_CASE(a_shared_sum_in_place_needs_its_owners_side_by_side) {
  std::vector<float> memory(64);
  const std::vector<piece> together{{0, 8, 8, 8}, {1, 8, 8, 8}, {0, 16, 16, 8}};
  const std::vector<piece> apart{{0, 8, 8, 8}, {0, 16, 16, 8}, {1, 8, 8, 8}};
  auto r = with(operation::reduce_scatter, together);
  r.input = r.output = reinterpret_cast<std::byte*>(memory.data());
  BOOST_TEST(check_memory(r, 0).has_value());
  BOOST_TEST(check_memory(r, 1).has_value());
  r.pieces = apart;
  BOOST_TEST(refused(check_memory(r, 0), "piece 0: rank 0 writes it over its input of piece 2"));
}

BOOST_AUTO_TEST_CASE(outputs_written_twice_are_refused) {
  const std::vector<piece> overlap{{0, 0, 0, 10}, {1, 50, 20, 5}, {1, 100, 9, 2}};
  for (const operation op : {operation::all_gather, operation::all_reduce, operation::broadcast})
    BOOST_TEST(refused(check_outputs(op, overlap, 2), "piece 2: output element 9 is also written by piece 0"));
  // In these operations, the outputs of different members are separate arrays.
  BOOST_TEST(check_outputs(operation::reduce_scatter, overlap, 2).has_value());
  BOOST_TEST(check_outputs(operation::send_receive, overlap, 2).has_value());
  const std::vector<piece> same_owner{{0, 0, 0, 10}, {1, 0, 0, 10}, {1, 20, 9, 2}};
  BOOST_TEST(refused(check_outputs(operation::reduce_scatter, same_owner, 2), "piece 2: output element 9"));
}

BOOST_AUTO_TEST_CASE(neighbours_and_empty_pieces_do_not_overlap) {
  const std::vector<piece> pieces{{0, 0, 10, 10}, {1, 0, 15, 0}, {1, 0, 20, 5}, {0, 10, 0, 10}};
  BOOST_TEST(check_outputs(operation::all_gather, pieces, 2).has_value());
}

BOOST_AUTO_TEST_CASE(in_place_is_the_same_piece_at_the_same_address) {
  std::vector<float> memory(64);
  const std::vector<piece> pieces{{0, 8, 8, 8}, {1, 16, 16, 8}};
  for (const operation op : {operation::all_reduce, operation::reduce_scatter, operation::all_gather}) {
    auto r = with(op, pieces);
    r.input = reinterpret_cast<const std::byte*>(memory.data());
    r.output = reinterpret_cast<std::byte*>(memory.data());
    BOOST_TEST(check_memory(r, 0).has_value(), name_of(op));
    BOOST_TEST(check_memory(r, 1).has_value(), name_of(op));
    r.output += 32 * sizeof(float);
    BOOST_TEST(check_memory(r, 0).has_value(), name_of(op));
  }
}

BOOST_AUTO_TEST_CASE(other_overlaps_of_input_and_output_are_refused) {
  std::vector<float> memory(64);
  const std::vector<piece> pieces{{0, 8, 8, 8}, {1, 16, 16, 8}};
  auto r = with(operation::all_reduce, pieces);
  r.input = reinterpret_cast<const std::byte*>(memory.data());
  const auto over = [&](int64_t floats) { return reinterpret_cast<std::byte*>(memory.data() + floats); };
  r.output = over(4);
  BOOST_TEST(refused(check_memory(r, 1), "piece 0: rank 1 writes it over its input of piece"));
  r.output = over(8);
  BOOST_TEST(refused(check_memory(r, 0), "writes it over its input of piece 1"));
  r.output = over(0);
  r.accumulate = true;
  BOOST_TEST(refused(check_memory(r, 0), "piece 0: rank 0 writes it over its input of piece 0"));
  r.accumulate = false;
  r.output_type = dtype::bf16;
  BOOST_TEST(refused(check_memory(r, 0), "over its input"));
}

BOOST_AUTO_TEST_CASE(an_overlap_with_a_long_earlier_input_is_found) {
  std::vector<float> memory(200);
  // The input of piece 0 extends beyond the inputs of pieces 1 and 2, which begin later and end earlier.
  const std::vector<piece> pieces{{0, 0, 150, 100}, {1, 10, 250, 5}, {1, 20, 260, 5}, {1, 120, 60, 5}};
  auto r = with(operation::all_reduce, pieces);
  r.input = r.output = reinterpret_cast<std::byte*>(memory.data());
  BOOST_TEST(refused(check_memory(r, 0), "piece 3: rank 0 writes it over its input of piece 0"));
}

BOOST_AUTO_TEST_CASE(memory_is_required_only_if_it_is_touched) {
  std::vector<float> memory(64);
  const std::vector<piece> pieces{{0, 0, 0, 8}};
  auto r = with(operation::reduce_scatter, pieces);
  r.input = reinterpret_cast<const std::byte*>(memory.data());
  BOOST_TEST(check_presence(r, 1).has_value());
  BOOST_TEST(refused(check_presence(r, 0), "an output of 8 elements was wanted, got none"));
  BOOST_TEST(check_presence(with(operation::barrier, {}), 0).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
