// Tests opening a session: the host program stops it in every phase, and it is refused if memory is insufficient.
#include <map>

#include "actors/opening/memory_need.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_opening)

using namespace troupe;
using namespace troupe::tests;

namespace {

core::result<std::unique_ptr<actors::session>> open_watched(const small_job& job, const settings& set,
                                                            actors::opening_hook hook,
                                                            const std::filesystem::path& resume = {}) {
  actors::session_options options;
  options.config = job.config(set);
  options.resume = resume;
  options.hooks.on_opening = std::move(hook);
  return actors::session::open(std::move(options));
}

const settings two_ranks = {"parallel.data=2", "zero_optimization.stage=2"};

}  // namespace

BOOST_AUTO_TEST_CASE(an_opening_reports_its_phases_and_can_be_ended_in_each) {
  const small_job job;
  actors::save_request request;
  request.root = job.folder() / "checkpoints";
  {
    auto s = job.open(two_ranks);
    step_of(*s);
    BOOST_REQUIRE(s->save(request).has_value());
  }
  for (const auto& resume : {std::filesystem::path(), request.root}) {
    std::vector<std::string> phases;
    const auto whole = open_watched(
        job, two_ranks,
        [&](const actors::opening_progress& p) {
          if (phases.empty() || phases.back() != p.phase) phases.push_back(p.phase);
          return true;
        },
        resume);
    BOOST_REQUIRE(whole.has_value());
    BOOST_TEST(phases.size() >= 5U);
    for (const auto& phase : phases) {
      const auto ended = open_watched(
          job, two_ranks, [&](const actors::opening_progress& p) { return p.phase != phase; }, resume);
      BOOST_REQUIRE(!ended.has_value());
      BOOST_TEST((ended.error().kind == core::error_kind::stopped));
      BOOST_TEST(ended.error().text == "stopped while the run was being opened (" + phase + ")");
    }
  }
}

// The model is wide, so that every phase takes long enough: opening a session must ask the host during the work, not
// only before it.
BOOST_AUTO_TEST_CASE(an_opening_asks_the_host_during_its_work) {
  const std::string wide =
      "model: {model_type: gpt2, n_layer: 4, n_embd: 1024, n_head: 4, n_positions: 24, vocab_size: 256, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n";
  const small_job job(wide);
  size_t asked = 0;
  const auto ended = open_watched(job, {"parallel.data=2"}, [&](const actors::opening_progress& p) {
    return p.phase != "making first weights" || ++asked < 2;
  });
  BOOST_REQUIRE(!ended.has_value());
  BOOST_TEST((ended.error().kind == core::error_kind::stopped));
  BOOST_TEST(asked == 2U);
}

BOOST_AUTO_TEST_CASE(a_hook_that_throws_ends_the_opening_with_what_it_threw) {
  const small_job job;
  BOOST_CHECK_THROW((void)open_watched(job, two_ranks,
                                       [](const actors::opening_progress& p) -> bool {
                                         if (p.phase == "making first weights") throw std::runtime_error("no");
                                         return true;
                                       }),
                    std::runtime_error);
}

BOOST_AUTO_TEST_CASE(states_larger_than_memory_are_refused_with_both_sizes) {
  const small_job job;
  const auto b = job::make_blueprint(job.config(two_ranks));
  BOOST_REQUIRE(b.has_value());
  const uint64_t needed = actors::needed_bytes(*b);
  BOOST_TEST(needed >= 2 * 4 * b->table->numel());
  BOOST_TEST(actors::check_memory(*b, std::nullopt).has_value());
  BOOST_TEST(actors::check_memory(*b, storage::memory_room{needed, "the machine"}).has_value());
  const auto refused = actors::check_memory(*b, storage::memory_room{needed - 1, "the machine"});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::limit));
  BOOST_TEST(refused.error().text.find("memory: the states of ") == 0U, refused.error().text);
  BOOST_TEST(refused.error().text.find("the machine has ") != std::string::npos, refused.error().text);
  BOOST_TEST(refused.error().text.find("--fit --memory ") != std::string::npos, refused.error().text);
}

BOOST_AUTO_TEST_SUITE_END()
