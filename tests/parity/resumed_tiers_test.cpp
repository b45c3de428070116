// Checks that a run which was saved with its states in some memory tiers resumes with them in others, that states in
// files take no memory, and that sessions at the same time have swap folders of their own.
#include <fmt/format.h>

#include "tests/parity/placed_states.hpp"

BOOST_AUTO_TEST_SUITE(resumed_tiers)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Steps before a checkpoint and after it.
constexpr uint64_t before = 3, after = 3;

std::unique_ptr<actors::session> resumed(const small_job& job, const settings& set, const std::filesystem::path& from) {
  auto s = actors::session::open({.config = job.config(set), .resume = from});
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

/// Saves in the middle of a run with every `every`-th placement of states, and resumes with another placement.
void check_resumes(const settings& given, size_t every) {
  const small_job job(frozen_gpt2);
  const settings common = given + small_batches;
  const auto reference = train(job, common + settings{zero + "stage=0"}, before + after);
  for (size_t i = 0; i < std::size(places); i += every) {
    const placed &first = places[i], &second = places[(i + 7) % std::size(places)];
    const auto folder = job.folder() / fmt::format("saved-{}", i);
    BOOST_TEST_CONTEXT(text_of(common + at(first, job)) << ", then " << text_of(at(second, job))) {
      {
        const auto s = job.open(common + at(first, job));
        for (uint64_t n = 0; n < before; ++n)
          BOOST_TEST(std::bit_cast<uint64_t>(step_of(*s).loss) == reference.losses[n]);
        const auto saved = s->save({.root = folder});
        BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
      }
      const auto s = resumed(job, common + at(second, job), folder);
      const auto got = result_of(*s, after);
      BOOST_TEST(
          std::equal(got.losses.begin(), got.losses.end(), reference.losses.begin() + before, reference.losses.end()));
      BOOST_TEST(same_bits(got.weights, reference.weights), "weights differ");
      BOOST_TEST(same_bits(got.first, reference.first), "first moments differ");
      BOOST_TEST(same_bits(got.second, reference.second), "second moments differ");
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_was_saved_with_some_tiers_resumes_with_others) {
  check_resumes({"parallel.data=2"}, 1);
  check_resumes(
      {"parallel.data=3", "bf16.enabled=true", "gradient_accumulation_steps=2", "gradient_order=per_micro_batch"}, 2);
  check_resumes({"parallel.data=2", "gradient_clipping=0"}, 3);
}

BOOST_AUTO_TEST_CASE(states_in_files_take_no_memory) {
  const small_job job(gpt2);
  for (const char* type : {"bf16.enabled=false", "bf16.enabled=true"}) BOOST_TEST_CONTEXT(type) {
      const settings common = {"parallel.data=2", type};
      const auto s = job.open(common + at(places[std::size(places) - 1], job) + settings{param + "max_in_cpu=0"});
      step_of(*s);
      for (const auto& rank : s->memory()) {
        BOOST_TEST(rank.resident.parameters == 0U);
        BOOST_TEST(rank.resident.master == 0U);
        BOOST_TEST(rank.resident.moments == 0U);
        BOOST_TEST(rank.resident.accumulated == 0U);
        BOOST_TEST(rank.resident.windows > 0U);
      }
      const uint64_t bytes_each = std::string_view(type) == "bf16.enabled=true" ? 2 + 2 + 12 : 16;
      uint64_t swapped = 0;
      for (uint32_t r = 0; r < 2; ++r) swapped += s->training_plan(r).memory.swapped;
      BOOST_TEST(swapped >= s->table().numel() * bytes_each);
    }
}

BOOST_AUTO_TEST_CASE(two_sessions_in_a_process_have_a_folder_each) {
  const small_job one(gpt2), two(gpt2);
  const placed& all = places[std::size(places) - 1];
  const auto reference = train(one, small_batches + settings{"parallel.data=2", zero + "stage=0"}, 4);
  const auto set_of_job = [&](const small_job& job) {
    return small_batches + settings{"parallel.data=2"} + at(all, job);
  };
  const auto a = one.open(set_of_job(one)), b = two.open(set_of_job(two));
  const auto third = one.try_open(set_of_job(one));
  BOOST_TEST_REQUIRE(!third.has_value());
  BOOST_TEST(third.error().text.find("in use") != std::string::npos, third.error().text);
  for (const uint64_t loss : reference.losses) {
    BOOST_TEST_INFO_SCOPE("loss " << loss);
    BOOST_TEST(std::bit_cast<uint64_t>(step_of(*a).loss) == loss);
    BOOST_TEST(std::bit_cast<uint64_t>(step_of(*b).loss) == loss);
  }
}

BOOST_AUTO_TEST_SUITE_END()
