// Tests when modelled operations end, and which memory they leave unchanged.
#include <boost/test/unit_test.hpp>

#include "tests/fabric/company.hpp"

BOOST_AUTO_TEST_SUITE(modelled)

namespace {

using namespace troupe;
using namespace troupe::fabric;
using tests::modelled_stage;

constexpr linear_link slow_link{.latency_us = 5, .bytes_per_second = 1e9};

request gather_of(std::span<const piece> pieces, uint64_t sequence) {
  request r;
  r.id = {.step = 0, .communicator = 0, .sequence = sequence, .what = "gather"};
  r.op = operation::all_gather;
  r.pieces = pieces;
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_duration_is_latency_and_bytes_over_bandwidth) {
  BOOST_TEST(slow_link.duration_ns(0) == 5'000);
  BOOST_TEST(slow_link.duration_ns(1'000) == 6'000);
  BOOST_TEST(slow_link.duration_ns(1) == 5'001);
}

BOOST_AUTO_TEST_CASE(an_operation_takes_its_time_once_all_have_arrived) {
  modelled_stage stage(2, slow_link);
  const auto a = stage.join(0);
  const auto b = stage.join(1);
  const std::vector<piece> pieces{{0, 0, 0, 1'000}, {1, 0, 1'000, 500}};
  std::mt19937 random(1);
  BOOST_REQUIRE(a->post(gather_of(pieces, 0)));
  BOOST_TEST((a->advance(0).value() == progress::pending));
  BOOST_TEST(stage.under_way() == 0U);
  BOOST_TEST((a->missing(0) == std::vector<uint32_t>{1}));
  BOOST_REQUIRE(b->post(gather_of(pieces, 0)));
  BOOST_TEST((b->advance(0).value() == progress::pending));
  BOOST_TEST((a->advance(0).value() == progress::pending));
  BOOST_TEST(stage.under_way() == 2U);
  BOOST_REQUIRE(stage.next(random).has_value());
  BOOST_TEST(stage.now_ns() == 5'000 + 4'000);
  BOOST_TEST((a->advance(0).value() == progress::done));
  BOOST_TEST((b->advance(0).value() == progress::done));
  BOOST_REQUIRE(stage.next(random).has_value());
  BOOST_TEST(stage.now_ns() == 9'000);
}

BOOST_AUTO_TEST_CASE(a_member_posts_for_those_that_it_acts_for) {
  modelled_stage stage(4, slow_link, {0, 1, 1, 0});
  const auto a = stage.join(0);
  const auto b = stage.join(1);
  const std::vector<piece> pieces{{0, 0, 0, 1'000}, {1, 0, 1'000, 500}, {2, 0, 1'500, 500}, {3, 0, 2'000, 500}};
  std::mt19937 random(1);
  for (uint64_t sequence = 0; sequence < 3; ++sequence) {
    BOOST_REQUIRE(b->post(gather_of(pieces, sequence)));
    BOOST_TEST((b->missing(sequence) == std::vector<uint32_t>{0, 3}));
    BOOST_REQUIRE(a->post(gather_of(pieces, sequence)));
    BOOST_TEST((a->advance(sequence).value() == progress::pending));
    // Only the two members that are there are scheduled; the time is that of four.
    BOOST_TEST(stage.under_way() == 2U);
    const int64_t began_ns = stage.now_ns();
    BOOST_REQUIRE(stage.next(random).has_value());
    BOOST_TEST(stage.now_ns() == began_ns + 5'000 + 4 * 2'000);
    BOOST_REQUIRE(stage.next(random).has_value());
    BOOST_TEST((a->advance(sequence).value() == progress::done));
    BOOST_TEST((b->advance(sequence).value() == progress::done));
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_acts_for_others_acts_for_itself) {
  const std::vector<std::vector<uint32_t>> wrong{{1, 2, 2}, {0, 3, 0}, {0, 0}};
  for (const auto& acted_by : wrong) {
    modelled_stage stage(3, slow_link, acted_by);
    const auto refused = stage.join(0)->post(gather_of({}, 0));
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().text.find("one that acts for it") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(operations_of_one_communicator_share_its_link) {
  modelled_stage stage(1, slow_link);
  const auto only = stage.join(0);
  std::mt19937 random(1);
  request r;
  for (r.id.sequence = 0; r.id.sequence < 3; ++r.id.sequence) BOOST_REQUIRE(only->post(r));
  for (uint64_t s = 0; s < 3; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    BOOST_TEST((stage.next(random) == std::pair<uint32_t, uint64_t>(0, s)));
    BOOST_TEST(stage.now_ns() == 5'000 * static_cast<int64_t>(s + 1));
    BOOST_TEST((only->advance(s).value() == progress::done));
  }
}

BOOST_AUTO_TEST_CASE(a_cut_of_the_link_lengthens_what_moves_and_what_follows) {
  modelled_stage stage(1, slow_link);
  const auto only = stage.join(0);
  std::mt19937 random(1);
  request r;
  for (r.id.sequence = 0; r.id.sequence < 2; ++r.id.sequence) BOOST_REQUIRE(only->post(r));
  stage.hold(3'000);
  stage.hold(2'000);  // within the cut before it
  while (stage.now_ns() < 5'000) BOOST_REQUIRE(stage.next(random).has_value());
  BOOST_TEST((only->advance(0).value() == progress::pending));
  while (stage.now_ns() < 8'000) BOOST_REQUIRE(stage.next(random).has_value());
  BOOST_TEST((only->advance(0).value() == progress::done));
  BOOST_TEST((only->advance(1).value() == progress::pending));
  while (stage.now_ns() < 13'000) BOOST_REQUIRE(stage.next(random).has_value());
  BOOST_TEST((only->advance(1).value() == progress::done));
  stage.hold(INT64_MAX);
  BOOST_REQUIRE(only->post(r));
  while (stage.next(random).has_value()) {
  }
  BOOST_TEST((only->advance(2).value() == progress::pending));
}

BOOST_AUTO_TEST_CASE(more_bytes_than_the_limit_take_time_but_stay_where_they_are) {
  for (const uint64_t more : {0, 1}) {
    BOOST_TEST_INFO_SCOPE("more " << more);
    modelled_stage stage(2, slow_link);
    const auto a = stage.join(0);
    const auto b = stage.join(1);
    std::mt19937 random(1);
    const uint64_t count = modelled_move_bytes_max / sizeof(float) + more;
    const std::vector<piece> pieces{{0, 0, 0, count}};
    std::vector<float> from(count, 1);
    std::vector<float> to(count, 0);
    request r = gather_of(pieces, 0);
    r.input = r.output = reinterpret_cast<std::byte*>(from.data());
    BOOST_REQUIRE(a->post(r));
    r.input = nullptr;
    r.output = reinterpret_cast<std::byte*>(to.data());
    BOOST_REQUIRE(b->post(r));
    BOOST_REQUIRE(stage.next(random).has_value());
    BOOST_TEST((b->advance(0).value() == progress::done));
    BOOST_TEST((to == std::vector<float>(count, more == 0 ? 1.0F : 0.0F)));
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_members_without_memory_meet) {
  constexpr uint32_t size = 1'000;
  modelled_stage stage(size, slow_link);
  std::vector<piece> pieces;
  for (uint32_t r = 0; r < size; ++r) pieces.push_back({r, 0, r * 10, 10});
  std::vector<std::unique_ptr<communicator>> all;
  for (uint32_t r = 0; r < size; ++r) all.push_back(stage.join(r));
  std::mt19937 random(1);
  for (uint64_t s = 0; s < 5; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    for (auto& c : all) BOOST_REQUIRE(c->post(gather_of(pieces, s)));
    uint32_t done = 0;
    while (const auto wake = stage.next(random))
      done += all[wake->first]->advance(wake->second).value() == progress::done;
    BOOST_TEST(done == size);
  }
}

BOOST_AUTO_TEST_SUITE_END()
