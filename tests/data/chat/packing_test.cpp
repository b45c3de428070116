// Tests how samples of different lengths become rows: every sample once, no row too long, the tightest fit.
#include "data/chat/packing.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/math.hpp"

BOOST_AUTO_TEST_SUITE(packing)

using namespace troupe;

namespace {

std::vector<std::vector<uint32_t>> rows_of(const data::packed_rows& packed) {
  std::vector<std::vector<uint32_t>> out;
  for (uint64_t r = 0; r < packed.rows(); ++r) out.emplace_back(packed.row(r).begin(), packed.row(r).end());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_sample_goes_where_it_leaves_the_least_room) {
  // The longest are placed first: 7 and 6 begin rows; 4 fits behind 6 exactly; 3 behind 7 exactly; 2 begins a row.
  const std::vector<uint32_t> lengths{3, 6, 2, 7, 4};
  BOOST_TEST((rows_of(data::pack_rows(lengths, 10)) == std::vector<std::vector<uint32_t>>{{0, 3}, {1, 4}, {2}}));
}

BOOST_AUTO_TEST_CASE(no_samples_make_no_rows) { BOOST_TEST(data::pack_rows({}, 10).rows() == 0U); }

BOOST_AUTO_TEST_CASE(unpacked_samples_have_rows_of_their_own) {
  BOOST_TEST((rows_of(data::single_rows(3)) == std::vector<std::vector<uint32_t>>{{0}, {1}, {2}}));
  BOOST_TEST(data::single_rows(0).rows() == 0U);
}

BOOST_AUTO_TEST_CASE(every_sample_is_in_one_row_and_no_row_is_too_long) {
  constexpr uint64_t room = 100;
  std::vector<uint32_t> lengths(1000);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<uint32_t>(1 + core::mix64(i) % room);
  const auto packed = data::pack_rows(lengths, room);
  std::vector<uint32_t> seen = packed.order;
  std::ranges::sort(seen);
  std::vector<uint32_t> all(lengths.size());
  std::iota(all.begin(), all.end(), 0U);
  BOOST_TEST((seen == all));
  uint32_t before = 0;
  for (const auto& row : rows_of(packed)) {
    uint64_t tokens = 0;
    for (const uint32_t sample : row) tokens += lengths[sample];
    BOOST_TEST(tokens <= room);
    BOOST_TEST(std::ranges::is_sorted(row));
    BOOST_TEST(row.front() >= before);
    before = row.front();
  }
  const uint64_t tokens = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  BOOST_TEST(packed.rows() <= tokens / room + tokens / room / 20 + 1, packed.rows() << " rows for " << tokens);
}

BOOST_AUTO_TEST_SUITE_END()
