// Tests which compression techniques are active after how many updates, as a host program queries it, and that a
// session computes with these techniques.
#include "compression/compression_scheduler.hpp"

#include "actors/run/compression_state.hpp"
#include "actors/session/state_access.hpp"
#include "compression/host_layers.hpp"
#include "tests/check_ok.hpp"
#include "tests/compression/host_modules.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(compression_scheduler)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string section = quantised("4", "first, second", "2") + ", " +
                            pruned("sparse_pruning", "snip_momentum", "head", "",
                                   "schedule_offset: 1, schedule_offset_end: 4, block_pattern: 1x1") +
                            ", " + pruned("row_pruning", "l1", "first", "second", "schedule_offset: 3");

compression::compression_scheduler scheduler(const std::string& of) {
  const auto layers = check_ok(compression::host_layers_of(picture_model(), 7));
  auto made = check_ok(compression::compression_scheduler::make(*compressing(of), layers->table));
  return std::move(*made);
}

}  // namespace

BOOST_AUTO_TEST_CASE(techniques_begin_after_their_updates_and_never_end) {
  auto s = scheduler(section);
  BOOST_TEST((s.phases() == std::vector<uint64_t>{0, 1, 2, 3}));
  for (uint64_t updates = 0; updates < 6; ++updates, s.step()) {
    BOOST_TEST_INFO_SCOPE("updates " << updates);
    BOOST_TEST(s.training_steps() == updates);
    BOOST_TEST(s.is_enabled("sparse_pruning") == (updates >= 1));
    BOOST_TEST(s.is_enabled("weight_quantization") == (updates >= 2));
    BOOST_TEST(s.is_enabled("row_pruning") == (updates >= 3));
    BOOST_TEST(!s.is_enabled("head_pruning"));
  }
  s.set_training_steps(2);
  const auto now = s.state();
  BOOST_TEST_REQUIRE(now.size() == 4U);
  BOOST_TEST(now[0].module == "first");
  BOOST_TEST(now[0].bits == 4U);
  BOOST_TEST(now[2].technique == "sparse_pruning");
  BOOST_TEST((now[2].dense_ratio > 0.5 && now[2].dense_ratio < 1));
  BOOST_TEST(now[3].technique == "row_pruning");
  BOOST_TEST(now[3].dense_ratio == 1);
  s.set_training_steps(4);
  BOOST_TEST(s.state()[2].dense_ratio == 0.5);
  BOOST_TEST(s.state()[3].dense_ratio == 0.5);
}

BOOST_AUTO_TEST_CASE(bits_go_one_by_one) {
  auto s = scheduler(
      "weight_quantization: {shared_parameters: {enabled: true}, different_groups: {all: {params: {start_bits: 8, "
      "target_bits: 6, quantization_period: 2}, modules: [head]}}}");
  std::vector<uint32_t> bits;
  for (int i = 0; i < 8; ++i, s.step()) bits.push_back(s.state()[0].bits);
  BOOST_TEST(bits.front() == 8U);
  BOOST_TEST(bits.back() == 6U);
  BOOST_TEST(std::ranges::is_sorted(bits, std::greater<>()));
}

BOOST_AUTO_TEST_CASE(a_session_says_by_how_many_updates_its_techniques_have_begun) {
  auto ready = compression::init_compression({[] { return picture_model(); }, &picture_batch}, compressing(section));
  BOOST_TEST_REQUIRE(ready.has_value());
  auto s = check_ok(actors::session::open(std::move(*ready)));
  for (int i = 0; i < 3; ++i) step_of(**s);
  const auto state = check_ok((*s)->states().compression());
  BOOST_TEST(state->updates == 3U);
  BOOST_TEST(state->masks.size() == 2U);
  auto mine = check_ok(compression::compression_scheduler::make(*state->config, (*s)->table()));
  mine->set_training_steps(state->updates);
  BOOST_TEST(mine->is_enabled("row_pruning"));
}

BOOST_AUTO_TEST_SUITE_END()
