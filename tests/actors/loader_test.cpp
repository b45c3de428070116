// Tests that the loader returns the micro-batches that data/ makes, prepares a limited number of them in advance, and
// survives failed requests.
#include "actors/loader.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "data/corpus.hpp"
#include "tests/actors/one_thread.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::actors;

namespace {

constexpr uint64_t sequence = 16;

struct fixture {
  fixture() {
    {
      std::ofstream out(scratch.path() / "text.txt");
      for (int i = 0; i < 4000; ++i) out << static_cast<char>('a' + i * i % 26);
    }
    data::source_options source;
    source.path = scratch.path() / "text.txt";
    auto stream = data::open_tokens(source);
    BOOST_REQUIRE(stream);
    auto corpus = data::corpus::make({{*stream}}, {.validation_fraction = 0.1, .sequence = sequence, .seed = 5});
    BOOST_REQUIRE(corpus);
    setup.corpus = std::make_shared<const data::corpus>(std::move(*corpus));
    setup.shape = {2, 3, 2};
  }

  std::shared_ptr<const data::batch> ask(const loader_actor& loader, next_batch k) {
    caf::scoped_actor self{world.system(), true};
    auto asked = self->request(loader, caf::infinite, k);
    world.run();
    std::shared_ptr<const data::batch> out;
    asked.receive(
        [&](const batch_ready& m) {
          BOOST_TEST(m.run == k.run);
          BOOST_TEST(m.micro == k.micro);
          out = m.batch;
        },
        [&](caf::error& e) { BOOST_FAIL("no batch: " << world.system().render(e)); });
    return out;
  }

  tests::scratch_folder scratch;
  loader_setup setup;
  one_thread world;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(loader, fixture)

BOOST_AUTO_TEST_CASE(training_batches_are_those_of_the_global_order_in_whatever_order_ranks_ask) {
  const auto actor = world.spawn(loader_impl, setup);
  for (uint64_t step = 0; step < 4; ++step)
    for (const uint32_t rank : {2U, 0U, 1U})
      for (uint32_t micro = 0; micro < 2; ++micro) {
        BOOST_TEST_INFO_SCOPE("micro " << micro);
        BOOST_TEST_INFO_SCOPE("rank " << rank);
        BOOST_TEST_INFO_SCOPE("step " << step);
        const auto got = ask(actor, {1, step, micro, rank, plan::plan_choice::train});
        const auto wanted = data::make_batch(*setup.corpus, setup.shape, step, micro, rank);
        BOOST_REQUIRE(got);
        BOOST_TEST(got->tokens == wanted.tokens, boost::test_tools::per_element());
        BOOST_TEST(got->samples == wanted.samples, boost::test_tools::per_element());
        BOOST_TEST(got->rows == wanted.rows);
        BOOST_TEST(got->columns == wanted.columns);
      }
}

BOOST_AUTO_TEST_CASE(evaluation_batches_go_through_the_validation_text_rank_after_rank_and_wrap) {
  const auto actor = world.spawn(loader_impl, setup);
  const uint64_t n = data::validation_batches(*setup.corpus, setup.shape.rows);
  for (uint64_t step = 0; step < n; ++step)
    for (uint32_t rank = 0; rank < 3; ++rank) {
      BOOST_TEST_INFO_SCOPE("rank " << rank);
      BOOST_TEST_INFO_SCOPE("step " << step);
      const auto got = ask(actor, {1, step, 0, rank, plan::plan_choice::evaluate});
      const auto wanted = data::make_validation_batch(*setup.corpus, setup.shape.rows, (step * 3 + rank) % n);
      BOOST_TEST(got->tokens == wanted.tokens, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(the_next_batch_is_prepared) {
  uint64_t cuts = 0;
  setup.cut = [&](const next_batch&) {
    ++cuts;
    return std::make_shared<const data::batch>();
  };
  const auto actor = world.spawn(loader_impl, setup);
  for (uint64_t step = 0; step < 5; ++step)
    for (uint32_t micro = 0; micro < 2; ++micro) ask(actor, {step, step, micro, 1, plan::plan_choice::train});
  BOOST_TEST(cuts == 11U);  // the first request makes two batches, and each of the nine later ones makes the next
}

BOOST_AUTO_TEST_CASE(the_ranks_of_all_stages_get_the_same_micro_batch_which_is_cut_once) {
  uint64_t cuts = 0;
  setup.readers = {3, 3};
  setup.cut = [&](const next_batch&) {
    ++cuts;
    return std::make_shared<const data::batch>();
  };
  const auto actor = world.spawn(loader_impl, setup);
  for (uint64_t step = 0; step < 5; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    const auto first = ask(actor, {step, step, 0, 1, plan::plan_choice::train});
    for (int stage = 1; stage < 3; ++stage)
      BOOST_TEST_CONTEXT("stage " << stage)
      BOOST_TEST(ask(actor, {step, step, 0, 1, plan::plan_choice::train}) == first);
    const auto next = ask(actor, {step, step, 1, 1, plan::plan_choice::train});
    BOOST_TEST(next != first);
    for (int stage = 1; stage < 3; ++stage)
      BOOST_TEST_CONTEXT("stage " << stage)
      BOOST_TEST(ask(actor, {step, step, 1, 1, plan::plan_choice::train}) == next);
  }
  BOOST_TEST(cuts == 11U);
}

BOOST_AUTO_TEST_CASE(no_more_batches_are_prepared_than_the_limit) {
  std::vector<next_batch> cuts;
  setup.prefetch_batches = 3;
  setup.cut = [&](const next_batch& k) {
    cuts.push_back(k);
    return std::make_shared<const data::batch>();
  };
  const auto actor = world.spawn(loader_impl, setup);
  // The batches prepared after these ten requests are never requested.
  for (uint64_t step = 0; step < 100; step += 10) ask(actor, {1, step, 0, 0, plan::plan_choice::train});
  BOOST_TEST(cuts.size() == 20U);
  // Only the three newest prepared batches are kept, so a request for an older one makes it again.
  cuts.clear();
  const auto cut_on_demand = [&](uint64_t step) {
    cuts.clear();
    ask(actor, {2, step, 1, 0, plan::plan_choice::train});
    return cuts.size() == 2;  // both the requested batch and the next one were made
  };
  BOOST_TEST(cut_on_demand(60));
  BOOST_TEST(!cut_on_demand(90));
  BOOST_TEST(!cut_on_demand(80));
}

BOOST_AUTO_TEST_CASE(prepared_batches_are_dropped_when_the_data_moves_to_another_place) {
  const auto actor = world.spawn(loader_impl, setup);
  ask(actor, {1, 0, 0, 0, plan::plan_choice::train});
  ask(actor, {1, 0, 1, 0, plan::plan_choice::train});  // the loader has already prepared the batch of step 1
  caf::scoped_actor self{world.system(), true};
  auto told = self->request(actor, caf::infinite, move_data{1, 100, {{104, 110}}});
  world.run();
  told.receive([] {}, [&](caf::error& e) { BOOST_FAIL(world.system().render(e)); });
  auto shape = setup.shape;
  shape.first_step = 1;
  shape.first_sample = 100;
  shape.skipped = data::left_out({{104, 110}});
  for (const uint32_t rank : {0U, 2U}) {
    BOOST_TEST_INFO_SCOPE("rank " << rank);
    const auto got = ask(actor, {2, 1, 0, rank, plan::plan_choice::train});
    // Rank 2 begins at the fifth sample, which is 110 because 104 to 109 are left out.
    BOOST_TEST(got->samples.front() == (rank == 0 ? 100U : 110U));
    BOOST_TEST(got->tokens == data::make_batch(*setup.corpus, shape, 1, 0, rank).tokens,
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_cut_that_throws_is_answered_with_an_error) {
  setup.cut = [](const next_batch&) -> std::shared_ptr<const data::batch> {
    throw std::runtime_error("the text is gone");
  };
  const auto actor = world.spawn(loader_impl, setup);
  caf::scoped_actor self{world.system(), true};
  auto asked = self->request(actor, caf::infinite, next_batch{1, 0, 0, 0, plan::plan_choice::train});
  world.run();
  std::string why;
  asked.receive([](const batch_ready&) { BOOST_FAIL("a batch out of nothing"); },
                [&](caf::error& e) { why = world.system().render(e); });
  BOOST_TEST(why.find("the text is gone") != std::string::npos, why);
}

BOOST_AUTO_TEST_SUITE_END()
