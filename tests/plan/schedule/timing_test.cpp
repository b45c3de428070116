// Tests idle times and memory peaks of published pipeline schedules, in whole numbers. Idle times are of the rank
// that is idle longest, between its own first and last action.
#include "plan/schedule/timing.hpp"

#include <algorithm>

#include "plan/schedule/transfers.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(timing)

using namespace troupe::plan;

namespace {

struct costs {
  double f, b, w;
};
constexpr costs equal_parts{10, 10, 10}, measured{10, 12, 8};

double worst_idle(const table_timing& t) {
  double out = 0;
  for (const auto& r : t.ranks) out = std::max(out, r.idle_s);
  return out;
}

// `whole`: bytes of an activation that are kept until backward; `part`: the bytes of it that are kept until the
// weight part.
constexpr uint64_t whole = 100, part = 60;

table_timing play(std::string_view name, uint32_t p, uint32_t v, uint32_t m, const costs& c) {
  auto even = even_costs(p * v, c.f, c.b, c.w);
  for (auto& s : even.stages) s.activation_bytes = whole, s.weight_part_bytes = part;
  return play_table(named_table(name, p, v, m), even);
}

// Calls `check` for p from 2 to 8 ranks and m from p to 4p micro-batches.
void for_each_size(auto&& check) {
  for (uint32_t p = 2; p <= 8; ++p)
    for (uint32_t m = p; m <= 4 * p; ++m)
      for (const auto& c : {equal_parts, measured})
        BOOST_TEST_CONTEXT("p " << p << ", m " << m << ", b " << c.b) check(p, m, c);
}

}  // namespace

BOOST_AUTO_TEST_CASE(times_of_one_table_by_hand) {
  const auto t = play_table(named_table("1f1b", 2, 1, 2), even_costs(2, 1, 2, 3, 10));
  // The actions of rank 0 run at F0 0-1, F1 1-2, B0 27-32, B1 33-38; those of rank 1 at F0 11-12, B0 12-17, F1 17-18,
  // B1 18-23.
  BOOST_TEST(t.ranks[1].actions[2].start_s == 17.0);
  BOOST_TEST(t.ranks[0].actions[2].start_s == 27.0);
  BOOST_TEST(t.ranks[0].actions[3].start_s == 33.0);
  BOOST_TEST(t.total_s == 38.0);
  BOOST_TEST(t.ranks[0].idle_s == 26.0);
  BOOST_TEST(t.ranks[1].idle_s == 0.0);
  BOOST_TEST(t.ranks[0].busy_s == 12.0);
  BOOST_TEST(t.ranks[0].peak_bytes == 2U);
}

BOOST_AUTO_TEST_CASE(transfers_in_a_table_change_no_time) {
  for (const char* name : {"interleaved_1f1b", "zb1p", "dual_pipe_v"}) {
    BOOST_TEST_INFO_SCOPE(name);
    const auto t = named_table(name, 3, 2, 7);
    const auto costs = even_costs(6, 3, 4, 2, 1);
    BOOST_TEST(play_table(with_transfers(t), costs).total_s == play_table(t, costs).total_s);
  }
}

BOOST_AUTO_TEST_CASE(forward_alone_keeps_nothing) {
  const auto t = play("forward_only", 4, 2, 8, equal_parts);
  for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes == whole);
  BOOST_TEST(t.total_s == (2 * 8 + 3) * 10.0);
}

BOOST_AUTO_TEST_CASE(gpipe) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("gpipe", p, 1, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b + c.w));
    BOOST_TEST(t.total_s == (m + p - 1) * (c.f + c.b + c.w));
    for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes == m * whole);
  });
}

BOOST_AUTO_TEST_CASE(one_forward_one_backward) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("1f1b", p, 1, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b + c.w));
    for (uint32_t s = 0; s < p; ++s) BOOST_TEST(t.ranks[s].peak_bytes == std::min(p - s, m) * whole);
  });
}

BOOST_AUTO_TEST_CASE(looped_bfs) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("looped_bfs", p, 3, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b + c.w));
    for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes == 3 * m * whole);
  });
}

BOOST_AUTO_TEST_CASE(interleaved_1f1b) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const uint32_t rounds = m / p, v = 3;
    if (m % rounds != 0) return;  // the groups of micro-batches would differ in size
    const auto t = play("interleaved_1f1b", p, v, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b + c.w));
    for (uint32_t s = 0; s < p; ++s)
      BOOST_TEST(t.ranks[s].peak_bytes == std::min((v - 1) * (m / rounds) + 2 * (p - 1 - s) + 1, m * v) * whole);
  });
}

BOOST_AUTO_TEST_CASE(zb_h1) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("zb_h1", p, 1, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b - c.w));
    for (uint32_t s = 0; s < p; ++s) BOOST_TEST(t.ranks[s].peak_bytes == (p - s) * whole + s * part);
  });
}

BOOST_AUTO_TEST_CASE(zb_h2) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    if (m < 2 * p - 1) return;  // the schedule keeps 2p - 1 micro-batches in flight
    const auto t = play("zb_h2", p, 1, m, c);
    BOOST_TEST(worst_idle(t) == (p - 1) * (c.f + c.b - 2 * c.w));
    for (uint32_t s = 0; s < p; ++s) BOOST_TEST(t.ranks[s].peak_bytes == (2 * (p - s) - 1) * whole + 2 * s * part);
  });
}

BOOST_AUTO_TEST_CASE(zb_v) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("zb_v", p, 2, m, c);
    for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes <= 2 * p * whole);
    if (m < 2 * p) return;  // the schedule keeps 2p chunks in flight
    if (c.b == c.w) BOOST_TEST(worst_idle(t) == 0.0);
    for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes == 2 * p * whole);
  });
}

BOOST_AUTO_TEST_CASE(dual_pipe_v) {
  for_each_size([](uint32_t p, uint32_t m, const costs& c) {
    const auto t = play("dual_pipe_v", p, 2, m, c);
    const double pair = c.f + c.b + c.w;
    if (m >= 2 * p) BOOST_TEST(worst_idle(t) <= (p - 1) * (pair + c.b + c.w - 3 * c.w));
    for (const auto& r : t.ranks) BOOST_TEST(r.peak_bytes <= (2 * p + 1) * whole);
  });
}

BOOST_AUTO_TEST_CASE(micro_batches_in_flight_are_counted_for_each_stage) {
  using counts = std::vector<uint32_t>;
  BOOST_TEST((micros_in_flight(named_table("gpipe", 3, 1, 5)) == counts{5, 5, 5}));
  BOOST_TEST((micros_in_flight(named_table("1f1b", 3, 1, 5)) == counts{3, 2, 1}));
  BOOST_TEST((micros_in_flight(named_table("1f1b", 3, 1, 2)) == counts{2, 2, 1}));
  BOOST_TEST((micros_in_flight(named_table("forward_only", 3, 1, 5)) == counts{1, 1, 1}));
  // A micro-batch is in flight until its weight-gradient part has ended.
  BOOST_TEST((micros_in_flight(named_table("zb_h1", 2, 1, 6)) == counts{2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
