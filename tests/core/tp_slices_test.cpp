// Compares the shards of tensor coordinates with the simplest method: element by element, by their indices.
#include "core/tp_slices.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "core/tensor_view.hpp"

BOOST_AUTO_TEST_SUITE(tp_slices)

namespace core = troupe::core;
using core::parameter_cut;
using core::tp_run;
using core::tp_style;
using numbers = std::vector<uint64_t>;
using shape = std::vector<int64_t>;

namespace {

struct sample {
  shape whole;
  parameter_cut cut;
  uint32_t degree;
};

const std::vector<sample> samples = {
    {{6, 10}, {}, 3},                                                        // replicated on all ranks
    {{6, 10}, {tp_style::row, 0, {{4, 2}}}, 2},                              // contiguous rows
    {{6, 10}, {tp_style::column, 1, {{5, 3, 2}}}, 3},                        // one contiguous run in each row
    {{3, 24}, {tp_style::column, 1, {{8, 4}, {4, 2}, {4, 2}}}, 2},           // packed queries, keys and values
    {{24, 3}, {tp_style::column, 0, {{8, 4, 0}, {4, 2, 0}, {4, 2, 0}}}, 3},  // the last coordinate has no elements
    {{24}, {tp_style::column, 0, {{8, 4}, {4, 2}, {4, 2}}}, 2},              // the bias of a packed layer
    {{2, 7, 3}, {tp_style::row, 1, {{3, 2, 2}}}, 3},                         // splits the middle of three dimensions
    {{9, 4}, {tp_style::vocabulary, 0, {{3, 2, 2, 2}}}, 4},
};

/// Returns, for each element of the shard of `coordinate`, its index in the whole parameter, or a mark for padding.
numbers places_by_hand(const sample& s, uint32_t coordinate) {
  if (!s.cut.cuts()) {
    numbers out(core::numel_of(s.whole));
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = i;
    return out;
  }
  uint64_t outer = 1, inner = 1;
  const auto along = static_cast<uint64_t>(s.whole[s.cut.dimension]);
  for (size_t d = 0; d < s.whole.size(); ++d)
    if (d != s.cut.dimension) (d < s.cut.dimension ? outer : inner) *= static_cast<uint64_t>(s.whole[d]);
  numbers out;
  for (uint64_t o = 0; o < outer; ++o) {
    uint64_t part_begin = 0;
    for (const auto& widths : s.cut.parts) {
      uint64_t begin = part_begin;
      for (uint32_t t = 0; t < coordinate; ++t) begin += widths[t];
      for (uint64_t k = 0; k < core::widest_of(widths); ++k)
        for (uint64_t i = 0; i < inner; ++i)
          out.push_back(k < widths[coordinate] ? (o * along + begin + k) * inner + i : tp_run::padding);
      part_begin += core::sum_of(widths);
    }
  }
  return out;
}

numbers places_of(const std::vector<tp_run>& runs) {
  numbers out;
  for (const auto& r : runs)
    for (uint64_t i = 0; i < r.count; ++i) out.push_back(r.is_padding() ? r.whole : r.whole + i);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(shares_are_those_of_a_cut_by_hand) {
  for (const auto& s : samples)
    for (uint32_t t = 0; t < s.degree; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const core::tp_slices slices(s.whole, s.cut, t);
      const auto wanted = places_by_hand(s, t);
      BOOST_TEST_REQUIRE(slices.elements() == wanted.size());
      BOOST_TEST(slices.elements() == core::numel_of(core::local_shape(s.whole, s.cut)));
      BOOST_TEST(places_of(slices.runs(0, slices.elements())) == wanted, boost::test_tools::per_element());
      BOOST_TEST(slices.own_elements() ==
                 static_cast<uint64_t>(std::ranges::count_if(wanted, [](uint64_t p) { return p != tp_run::padding; })));
    }
}

BOOST_AUTO_TEST_CASE(any_range_of_a_share_is_the_same_runs) {
  std::mt19937_64 random(17);
  for (const auto& s : samples)
    for (uint32_t t = 0; t < s.degree; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const core::tp_slices slices(s.whole, s.cut, t);
      const auto wanted = places_by_hand(s, t);
      for (int i = 0; i < 20; ++i) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        const uint64_t first = random() % wanted.size(), count = random() % (wanted.size() - first + 1);
        const auto runs = slices.runs(first, count);
        uint64_t at = first;
        for (const auto& r : runs) {
          BOOST_TEST(r.local == at);
          at += r.count;
        }
        BOOST_TEST(at == first + count);
        BOOST_TEST(places_of(runs) == numbers(wanted.begin() + first, wanted.begin() + first + count),
                   boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(a_share_without_room_for_others_has_its_own_elements_in_the_same_order) {
  for (const auto& s : samples)
    for (uint32_t t = 0; t < s.degree; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const core::tp_slices own(s.whole, s.cut, t, core::tp_room::own);
      auto wanted = places_by_hand(s, t);
      std::erase(wanted, tp_run::padding);
      BOOST_TEST_REQUIRE(own.elements() == wanted.size());
      BOOST_TEST(own.own_elements() == wanted.size());
      BOOST_TEST(places_of(own.runs(0, own.elements())) == wanted, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(before_an_element_of_the_whole_are_the_shares_that_come_before_it) {
  for (const auto& s : samples)
    for (uint32_t t = 0; t < s.degree; ++t) {
      BOOST_TEST_INFO_SCOPE("t " << t);
      const core::tp_slices own(s.whole, s.cut, t, core::tp_room::own), widest(s.whole, s.cut, t);
      auto places = places_by_hand(s, t);
      const auto with_padding = places;
      std::erase(places, tp_run::padding);
      for (uint64_t e = 0; e <= core::numel_of(s.whole); ++e) {
        BOOST_TEST_INFO_SCOPE("e " << e);
        BOOST_TEST(own.before(e) == static_cast<uint64_t>(std::ranges::lower_bound(places, e) - places.begin()));
        const uint64_t at = widest.before(e);
        BOOST_TEST_REQUIRE(at <= with_padding.size());
        for (uint64_t i = 0; i < with_padding.size(); ++i)
          if (with_padding[i] != tp_run::padding) BOOST_TEST((with_padding[i] < e) == (i < at));
      }
    }
}

BOOST_AUTO_TEST_CASE(what_two_shares_have_both_is_found_in_either) {
  std::mt19937_64 random(18);
  const shape whole{3, 24};
  const parameter_cut three{tp_style::column, 1, {{9, 8, 7}}}, packed{tp_style::column, 1, {{8, 4}, {4, 2}, {4, 2}}};
  for (int i = 0; i < 200; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const core::tp_slices a(whole, three, static_cast<uint32_t>(random() % 3)),
        b(whole, packed, static_cast<uint32_t>(random() % 2));
    const auto part = [&](const core::tp_slices& of) {
      const uint64_t first = random() % of.elements();
      return of.runs(first, random() % (of.elements() - first) + 1);
    };
    const auto one = part(a), other = part(b);
    std::vector<std::pair<uint64_t, uint64_t>> wanted, got;
    for (const auto& x : one)
      for (uint64_t k = 0; !x.is_padding() && k < x.count; ++k)
        for (const auto& y : other)
          if (!y.is_padding() && x.whole + k >= y.whole && x.whole + k < y.whole + y.count)
            wanted.emplace_back(x.local + k, y.local + (x.whole + k - y.whole));
    for (const auto& both : core::common_to(one, other))
      for (uint64_t k = 0; k < both.count; ++k) got.emplace_back(both.first + k, both.second + k);
    BOOST_TEST((got == wanted));
  }
}

BOOST_AUTO_TEST_CASE(neighbours_are_one_run) {
  const core::tp_slices rows({6, 10}, {tp_style::row, 0, {{4, 2}}}, 1);
  BOOST_TEST((rows.runs(0, 40) == std::vector<tp_run>{{0, 40, 20}, {20, tp_run::padding, 20}}));
  const core::tp_slices columns({2, 10}, {tp_style::column, 1, {{6, 4}}}, 0);
  BOOST_TEST((columns.runs(0, 12) == std::vector<tp_run>{{0, 0, 6}, {6, 10, 6}}));
}

BOOST_AUTO_TEST_SUITE_END()
