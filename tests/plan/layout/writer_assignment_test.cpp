// Tests plan/layout/writer_assignment.hpp: the assignment equals DeepSpeed's, and every byte of a checkpoint has
// exactly one writer.
#include "plan/layout/writer_assignment.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(writer_assignment)

using namespace troupe;
using namespace troupe::plan;

namespace {

std::string shown(const core::result<std::vector<std::optional<writer_share>>>& of) {
  if (!of) return of.error().text;
  std::string out;
  for (const auto& s : *of) {
    if (!out.empty()) out += ' ';
    if (s)
      out.append("(").append(fmt::to_string(s->writers)).append(",").append(fmt::to_string(s->index)).append(")");
    else
      out += '-';
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(under_pure_data_parallelism_work_is_shared_out_as_in_deepspeed) {
  writer_layout l{.ranks = 8, .machines = 2};
  BOOST_TEST(shown(assign_writers(l)) == "(1,0) - - - - - - -");
  l.unit = writer_unit::replica;
  BOOST_TEST(shown(assign_writers(l)) == "(8,0) (8,1) (8,2) (8,3) (8,4) (8,5) (8,6) (8,7)");
  l.unit = writer_unit::socket;
  BOOST_TEST(shown(assign_writers(l)) == "(4,0) - (4,1) - (4,2) - (4,3) -");
  l.unit = writer_unit::machine;
  BOOST_TEST(shown(assign_writers(l)) == "(2,0) - - - (2,1) - - -");
  l.stage = 1;
  BOOST_TEST(shown(assign_writers(l)) == "(2,0) (1,0) (1,0) (1,0) (2,1) (1,0) (1,0) (1,0)");
  l.stage = 3;
  BOOST_TEST(shown(assign_writers(l)) == "(1,0) (1,0) (1,0) (1,0) (1,0) (1,0) (1,0) (1,0)");
  // Each machine has one rank, so the socket of a rank is its whole machine.
  BOOST_TEST(shown(assign_writers({.ranks = 2, .machines = 2, .unit = writer_unit::socket})) == "(2,0) (2,1)");
}

BOOST_AUTO_TEST_CASE(slices_of_a_model_are_spread_over_sockets_and_machines_as_in_deepspeed) {
  const auto of = [](uint32_t pp, uint32_t dp, uint32_t tp, uint32_t machines, writer_unit unit) {
    return shown(
        assign_writers({.ranks = pp * dp * tp, .tensor = tp, .pipeline = pp, .machines = machines, .unit = unit}));
  };
  using enum writer_unit;
  BOOST_TEST(of(1, 4, 2, 2, socket) == "(2,0) - (2,1) - - (2,0) - (2,1)");
  BOOST_TEST(of(1, 4, 2, 2, machine) == "(1,0) - - - - (1,0) - -");
  BOOST_TEST(of(2, 2, 2, 2, socket) == "(1,0) - - (1,0) (1,0) - - (1,0)");
  BOOST_TEST(of(2, 2, 2, 2, machine) == "(1,0) (1,0) - - (1,0) (1,0) - -");
  BOOST_TEST(of(1, 8, 2, 4, machine) == "(2,0) - - - (2,1) - - - - (2,0) - - - (2,1) - -");
  BOOST_TEST(of(1, 2, 8, 2, machine) == "(1,0) (1,0) (1,0) (1,0) - - - - - - - - (1,0) (1,0) (1,0) (1,0)");
  BOOST_TEST(of(1, 2, 2, 1, replica) == "(2,0) (2,0) (2,1) (2,1)");
  BOOST_TEST(of(1, 2, 2, 1, single) == "(1,0) (1,0) - -");
}

BOOST_AUTO_TEST_CASE(at_any_degrees_every_part_of_every_slice_has_one_writer) {
  for (uint32_t tp = 1; tp <= 4; ++tp)
    for (uint32_t pp = 1; pp <= 3; ++pp)
      for (uint32_t dp = 1; dp <= 6; ++dp)
        for (uint32_t machines = 1; machines <= std::min(4U, tp * pp * dp); ++machines)
          for (const auto unit :
               {writer_unit::single, writer_unit::replica, writer_unit::socket, writer_unit::machine}) {
            BOOST_TEST_INFO_SCOPE("dp " << dp);
            BOOST_TEST_INFO_SCOPE("machines " << machines);
            BOOST_TEST_INFO_SCOPE("pp " << pp);
            BOOST_TEST_INFO_SCOPE("tp " << tp);
            const auto all = assign_writers(
                {.ranks = tp * pp * dp, .tensor = tp, .pipeline = pp, .machines = machines, .unit = unit});
            BOOST_REQUIRE(all);
            std::map<uint32_t, std::set<uint32_t>> found;
            std::map<uint32_t, uint32_t> writers;
            for (uint32_t r = 0; r < all->size(); ++r) {
              BOOST_TEST_INFO_SCOPE("r " << r);
              const auto& s = (*all)[r];
              if (!s) continue;
              const uint32_t slice = r / (dp * tp) * tp + r % tp;
              BOOST_TEST(found[slice].insert(s->index).second);
              BOOST_TEST(writers.try_emplace(slice, s->writers).first->second == s->writers);
            }
            BOOST_TEST(found.size() == tp * pp);
            for (const auto& [slice, indices] : found) {
              BOOST_TEST(indices.size() == writers[slice]);
              BOOST_TEST(*indices.rbegin() + 1 == writers[slice]);
            }
          }
}

BOOST_AUTO_TEST_CASE(bytes_are_cut_evenly_and_in_order) {
  BOOST_TEST((even_range(103, 4, 0) == byte_range{0, 26}));
  BOOST_TEST((even_range(103, 4, 1) == byte_range{26, 26}));
  BOOST_TEST((even_range(103, 4, 2) == byte_range{52, 26}));
  BOOST_TEST((even_range(103, 4, 3) == byte_range{78, 25}));
  BOOST_TEST((aligned_range(10'000, 2, 0, 4096) == byte_range{0, 8192}));
  BOOST_TEST((aligned_range(10'000, 2, 1, 4096) == byte_range{8192, 1808}));
  BOOST_TEST((aligned_range(100, 3, 2, 4096) == byte_range{100, 0}));
  BOOST_TEST((aligned_range(103, 4, 1, 0) == byte_range{26, 26}));
  for (const uint64_t total : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{123'456'789}, ~uint64_t{0}})
    for (uint32_t writers = 1; writers <= 9; ++writers)
      for (const uint64_t alignment : {uint64_t{1}, uint64_t{4096}}) {
        BOOST_TEST_INFO_SCOPE("alignment " << alignment);
        BOOST_TEST_INFO_SCOPE("total " << total);
        BOOST_TEST_INFO_SCOPE("writers " << writers);
        uint64_t reached = 0;
        for (uint32_t i = 0; i < writers; ++i) {
          BOOST_TEST_INFO_SCOPE("i " << i);
          const auto part = aligned_range(total, writers, i, alignment);
          BOOST_TEST(part.first == reached);
          BOOST_TEST((part.bytes == 0 || part.first % alignment == 0));
          reached += part.bytes;
        }
        BOOST_TEST(reached == total);
      }
}

BOOST_AUTO_TEST_CASE(impossible_layouts_are_refused) {
  const auto text = [](const writer_layout& l) { return shown(assign_writers(l)); };
  BOOST_TEST(text({.ranks = 0}).starts_with("writers: wanted at least one"));
  BOOST_TEST(text({.ranks = 6, .tensor = 4}).ends_with("got 6 ranks of 4 tensor by 1 pipeline"));
  BOOST_TEST(text({.ranks = 2, .machines = 3}).ends_with("got 3 and 2"));
  BOOST_TEST(text({.ranks = 4, .stage = 4}).ends_with("a ZeRO stage from 0 to 3, got 4"));
}

BOOST_AUTO_TEST_CASE(one_ranks_share_is_that_of_the_whole_assignment) {
  for (const auto unit : {writer_unit::single, writer_unit::replica, writer_unit::socket, writer_unit::machine})
    for (const auto& [tensor, pipeline] : {std::pair(1U, 1U), {2U, 1U}, {1U, 2U}, {2U, 2U}, {4U, 1U}})
      for (const uint32_t machines : {1U, 2U, 4U})
        for (const uint32_t stage : {0U, 1U, 3U}) {
          BOOST_TEST_INFO_SCOPE("machines " << machines);
          BOOST_TEST_INFO_SCOPE("stage " << stage);
          const writer_layout l{
              .ranks = 16, .tensor = tensor, .pipeline = pipeline, .machines = machines, .stage = stage, .unit = unit};
          const auto all = assign_writers(l);
          for (uint32_t r = 0; r < 16; ++r) BOOST_TEST((assigned_share(l, r).value() == (*all)[r]));
        }
  BOOST_TEST(!assigned_share({.ranks = 2}, 2).has_value());
  BOOST_TEST((even_range(10, 0, 0) == byte_range{10, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
