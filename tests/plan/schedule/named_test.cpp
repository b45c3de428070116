// Tests every named schedule: against PyTorch's own tables, and for all small sizes that it can run.
#include "plan/schedule/named.hpp"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "plan/schedule/proof.hpp"
#include "plan/schedule/transfers.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(named)

using namespace troupe::plan;
using troupe::tests::check_ok;

namespace {

// 64-bit FNV-1a, which the script that generates the fixtures also computes.
std::string digest(const pipeline_table& t) {
  uint64_t out = 0xCBF29CE484222325ULL;
  for (const char c : write_table(t)) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; out >>= 4U) text[i] = "0123456789abcdef"[out & 15U];
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tables_equal_those_of_pytorch_with_and_without_transfers) {
  std::istringstream lines(pipeline_fixture("digests.txt"));
  std::map<std::string, int> seen;
  std::string name, wanted, wanted_with_transfers;
  for (uint32_t p = 0, v = 0, m = 0; lines >> name >> p >> v >> m >> wanted >> wanted_with_transfers; ++seen[name]) {
    const auto t = named_table(name, p, v, m);
    BOOST_TEST(digest(t) == wanted, name << " " << p << " " << v << " " << m << "\n" << write_table(t));
    BOOST_TEST(digest(with_transfers(t)) == wanted_with_transfers, name << " " << p << " " << v << " " << m);
  }
  BOOST_TEST(seen.size() == 5U);
  BOOST_TEST(seen["GPipe"] == 140);
  BOOST_TEST(seen["ZBVZeroBubble"] == 140);
  for (const char* some : {"Interleaved1F1B", "InterleavedZeroBubble", "DualPipeV"})
    BOOST_TEST_CONTEXT(some) BOOST_TEST(seen[some] > 60);
}

BOOST_AUTO_TEST_CASE(whole_tables_of_pytorch_are_read_and_equal) {
  const auto same = [](const std::string& name, uint32_t p, uint32_t v, uint32_t m) {
    const std::string stem = fmt::format("{}_{}_{}_{}", name, p, v, m);
    const auto ours = named_table(name, p, v, m);
    const auto theirs = check_ok(read_table(pipeline_fixture(stem + ".csv"), stem, {p, p * v, m}));
    BOOST_TEST((*theirs == ours), stem);
    const auto sent = check_ok(read_table(pipeline_fixture(stem + "_with_transfers.csv"), stem));
    BOOST_TEST((*sent == with_transfers(ours)), stem);
  };
  same("GPipe", 3, 1, 4);
  same("Interleaved1F1B", 2, 2, 4);
  same("InterleavedZeroBubble", 2, 2, 8);
  same("ZBVZeroBubble", 3, 2, 5);
  same("DualPipeV", 2, 2, 6);
  const auto merged =
      check_ok(read_table(pipeline_fixture("InterleavedZeroBubble_2_2_8_merged_with_transfers.csv"), "merged"));
  BOOST_TEST((*merged == with_transfers(with_whole_backwards(named_table("zb1p", 2, 2, 8)))));
}

BOOST_AUTO_TEST_CASE(every_schedule_runs_at_every_size) {
  for (const auto& s : named_schedules())
    for (uint32_t p = 1; p <= 8; ++p)
      for (uint32_t v = 1; v <= 4; ++v)
        for (uint32_t m = 1; m <= 2 * p + 3; ++m) {
          if (s.chunks != 0 && s.chunks != v) continue;
          const auto t = check_ok(make_table(s, {p, v, m}));
          const auto fault = find_fault(*t);
          BOOST_TEST(!fault.has_value(),
                     s.name << " " << p << " " << v << " " << m << ": " << (fault ? fault->text : ""));
          if (fault) continue;
          const auto sent = find_fault(with_transfers(*t));
          BOOST_TEST(!sent.has_value(),
                     s.name << " with transfers " << p << " " << v << " " << m << ": " << (sent ? sent->text : ""));
          BOOST_TEST(trains(*t) == (s.name != "forward_only"));
        }
}

BOOST_AUTO_TEST_CASE(every_schedule_but_those_of_two_directions_keeps_micro_batches_in_order) {
  for (const auto& s : named_schedules())
    for (uint32_t p = 1; p <= 6; ++p)
      for (uint32_t m = 1; m <= 4 * p; ++m) {
        const auto fault = find_reordering(*make_table(s, {p, 2, m}));
        BOOST_TEST(!fault.has_value(), s.name << " " << p << " " << m << ": " << (fault ? fault->text : ""));
      }
}

BOOST_AUTO_TEST_CASE(one_forward_one_backward_is_the_published_table) {
  BOOST_TEST(write_table(named_table("1f1b", 3, 1, 5)) ==
             "0F0,0F1,0F2,0B0,0F3,0B1,0F4,0B2,0B3,0B4\n"
             "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,1B4\n"
             "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4\n");
  BOOST_TEST(write_table(named_table("1f1b", 3, 1, 1)) == "0F0,0B0\n1F0,1B0\n2F0,2B0\n");
}

BOOST_AUTO_TEST_CASE(zero_bubble_is_the_published_table) {
  const auto h1 = write_table(named_table("zb_h1", 4, 1, 8)), h2 = write_table(named_table("zb_h2", 4, 1, 8));
  BOOST_TEST(h1.starts_with("0F0,0F1,0F2,0F3,0I0,0W0,0F4,0I1,0W1,0F5,"));
  BOOST_TEST(h1.find("\n3F0,3I0,3F1,3I1,3F2,3I2,3F3,3I3,3W0,3F4,3I4,3W1,3F5,") != std::string::npos);
  BOOST_TEST(h2.starts_with("0F0,0F1,0F2,0F3,0F4,0F5,0F6,0I0,0W0,0F7,0I1,0W1,0I2,0W2,"));
  BOOST_TEST(h2.ends_with("3F6,3I6,3W0,3F7,3I7,3W1,3W2,3W3,3W4,3W5,3W6,3W7\n"));
}

BOOST_AUTO_TEST_CASE(looped_bfs_goes_back_with_the_last_chunk_first_and_micro_batches_in_order) {
  BOOST_TEST(write_table(named_table("looped_bfs", 2, 2, 2)) ==
             "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n");
}

BOOST_AUTO_TEST_CASE(groups_are_as_large_as_asked) {
  BOOST_TEST(write_table(named_table("interleaved_1f1b", 2, 2, 6, 3))
                 .starts_with("0F0,0F1,0F2,2F0,2F1,2F2,2B0,0F3,2B1,0F4,2B2,0F5,0B0,2F3,0B1,2F4,"));
  for (uint32_t group = 4; group <= 9; ++group)
    for (uint32_t m = 1; m <= 20; ++m) {
      const auto fault = find_fault(named_table("interleaved_1f1b", 4, 3, m, group));
      BOOST_TEST(!fault.has_value(), group << " " << m << ": " << (fault ? fault->text : ""));
    }
}

BOOST_AUTO_TEST_CASE(names_are_found_as_pytorch_spells_them_and_others_are_listed) {
  for (const auto& [ours, theirs] : std::map<std::string, std::string>{{"gpipe", "GPipe"},
                                                                       {"1f1b", "1F1B"},
                                                                       {"looped_bfs", "LoopedBFS"},
                                                                       {"interleaved_1f1b", "Interleaved1F1B"},
                                                                       {"zb1p", "InterleavedZeroBubble"},
                                                                       {"zb_v", "ZBVZeroBubble"},
                                                                       {"zb_h1", "ZB-H1"},
                                                                       {"dual_pipe_v", "DualPipeV"}}) {
    BOOST_TEST((*find_schedule(theirs))->name == ours);
    BOOST_TEST((*find_schedule(ours))->name == ours);
  }
  BOOST_TEST(find_schedule("zb_w").error().text ==
             "unknown pipeline schedule 'zb_w'; wanted one of gpipe, 1f1b, looped_bfs, interleaved_1f1b, zb_h1, zb_h2, "
             "zb1p, zb_v, dual_pipe_v, forward_only");
  BOOST_TEST(!find_schedule("").has_value());
}

BOOST_AUTO_TEST_CASE(sizes_that_no_schedule_has_are_refused) {
  const auto why = [](std::string_view name, const pipeline_shape& s) {
    const auto t = make_table(**find_schedule(name), s);
    return t ? std::string() : t.error().text;
  };
  BOOST_TEST(why("1f1b", {0, 1, 4}) ==
             "schedule 1f1b requires at least 1 rank, 1 chunk and 1 micro-batch, got 0, 1 and 4");
  BOOST_TEST(why("zb_v", {4, 3, 8}) == "schedule zb_v requires 2 chunks per rank, got 3");
  BOOST_TEST(why("interleaved_1f1b", {4, 2, 8, 3}) ==
             "schedule interleaved_1f1b requires groups of at least as many micro-batches as ranks, 4, got 3");
  BOOST_TEST(why("gpipe", {1U << 16U, 1U << 16U, 1}) ==
             "4294967296 stages times 1 micro-batches: at most 4194304 are planned; use fewer stages or micro-batches");
  BOOST_TEST(why("gpipe", {2, 1, 4'000'000'000}) ==
             "2 stages times 4000000000 micro-batches: at most 4194304 are planned; use fewer stages or micro-batches");
}

BOOST_AUTO_TEST_SUITE_END()
