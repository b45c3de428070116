// Tests which ranks one set of actors can act for, on small meshes of communicators.
#include "sim/fold.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(fold)

using namespace troupe;
using ranks = std::vector<uint32_t>;

namespace {

/// Returns a communicator of each tensor group of two ranks, one of each tensor coordinate over all data ranks, and one
/// of all ranks.
std::vector<plan::communicator> tensor_mesh(uint32_t data) {
  std::vector<plan::communicator> out;
  for (uint32_t t = 0; t < 2; ++t) {
    out.push_back({"data", {}});
    for (uint32_t d = 0; d < data; ++d) out.back().members.push_back(2 * d + t);
  }
  out.push_back({"all ranks", {}});
  for (uint32_t r = 0; r < 2 * data; ++r) out.back().members.push_back(r);
  for (uint32_t d = 0; d < data; ++d) out.push_back({"tensor", {2 * d, 2 * d + 1}});
  return out;
}

ranks folded(const ranks& colours, const std::vector<plan::communicator>& all) {
  return sim::fold_ranks(colours, all, ranks(all.size(), 0));
}

}  // namespace

BOOST_AUTO_TEST_CASE(equal_ranks_of_one_communicator_are_one_class) {
  BOOST_TEST((folded({0, 0, 0, 0}, {{"data", {0, 1, 2, 3}}}) == ranks{0, 0, 0, 0}));
  BOOST_TEST(sim::num_acting({0, 0, 0, 0}) == 1U);
  BOOST_TEST((folded({0}, {{"data", {0}}}) == ranks{0}));
}

BOOST_AUTO_TEST_CASE(a_rank_that_differs_is_a_class_of_its_own) {
  BOOST_TEST((folded({5, 5, 9, 5}, {{"data", {0, 1, 2, 3}}}) == ranks{0, 0, 2, 0}));
  BOOST_TEST((folded({1, 0, 1, 0}, {{"data", {0, 1, 2, 3}}}) == ranks{0, 1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(a_rank_that_differs_sets_those_apart_whom_it_meets) {
  // Tensor ranks that are alike are one class, too.
  BOOST_TEST((folded(ranks(8, 0), tensor_mesh(4)) == ranks(8, 0)));
  BOOST_TEST((folded({0, 1, 0, 1, 0, 1, 0, 1}, tensor_mesh(4)) == ranks{0, 1, 0, 1, 0, 1, 0, 1}));
  // Rank 5 differs: so does rank 4, which is in its tensor group.
  BOOST_TEST((folded({0, 1, 0, 1, 0, 7, 0, 1}, tensor_mesh(4)) == ranks{0, 1, 0, 1, 4, 5, 0, 1}));
  BOOST_TEST((folded({7, 1, 0, 1, 0, 1, 0, 1}, tensor_mesh(4)) == ranks{0, 1, 2, 3, 2, 3, 2, 3}));
}

BOOST_AUTO_TEST_CASE(communicators_of_another_speed_set_their_members_apart) {
  const std::vector<plan::communicator> pairs{{"a", {0, 1}}, {"a", {2, 3}}, {"a", {4, 5}}};
  BOOST_TEST((sim::fold_ranks(ranks(6, 0), pairs, {0, 0, 0}) == ranks{0, 0, 0, 0, 0, 0}));
  BOOST_TEST((sim::fold_ranks(ranks(6, 0), pairs, {0, 1, 0}) == ranks{0, 0, 2, 2, 0, 0}));
}

BOOST_AUTO_TEST_CASE(communicators_of_other_sizes_set_their_members_apart) {
  BOOST_TEST((folded(ranks(5, 0), {{"a", {0, 1}}, {"a", {2, 3, 4}}}) == ranks{0, 0, 2, 2, 2}));
}

BOOST_AUTO_TEST_CASE(a_difference_reaches_ranks_through_others) {
  // A ring of pairs: the farther from rank 0, the later the difference reaches a rank.
  std::vector<plan::communicator> ring;
  for (uint32_t r = 0; r < 5; ++r) ring.push_back({"pair", {r, r + 1}});
  ring.push_back({"pair", {0, 5}});
  const auto out = folded({9, 0, 0, 0, 0, 0}, ring);
  BOOST_TEST(out[0] == 0U);
  for (uint32_t r = 1; r < 6; ++r) BOOST_TEST(out[r] != 0U);
  BOOST_TEST(out[1] != out[2]);
  BOOST_TEST(out[2] != out[3]);
}

BOOST_AUTO_TEST_CASE(ranks_that_act_meet_in_their_communicators) {
  // Ranks 0 and 2 are alike, and 1 and 3, but ranks 0 and 1, which would act for them, do not meet.
  const std::vector<plan::communicator> pairs{{"a", {0, 3}}, {"a", {1, 2}}};
  const ranks out = folded({0, 1, 0, 1}, pairs);
  BOOST_TEST((out == ranks{0, 1, 2, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
