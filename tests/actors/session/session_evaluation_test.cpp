// Tests evaluation: the losses of its micro-batches and the model's outputs do not depend on the cut into stages.
#include <fmt/format.h>

#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(session_evaluation)

using namespace troupe;
using namespace troupe::tests;

namespace {

const settings common = {"parallel.data=2", "data.validation_fraction=0.1", "gradient_accumulation_steps=2",
                         "gradient_order=per_step"};

settings cut(int ranks, const std::string& schedule, int chunks, int stage) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks), fmt::format("zero_optimization.stage={}", stage),
          "zero_optimization.stage3_param_persistence_threshold=0"};
}

const std::vector<settings> cuts = {cut(2, "1f1b", 1, 1), cut(3, "gpipe", 1, 3), cut(2, "zb_v", 2, 2),
                                    cut(2, "looped_bfs", 2, 3)};

actors::evaluation_report evaluated(actors::session& s, const actors::evaluation_request& request) {
  auto did = s.evaluate(request);
  if (!did) throw std::runtime_error(did.error().text);
  return *did;
}

struct output {
  uint64_t batch = 0;
  uint32_t rank = 0;
  std::vector<int64_t> shape;
  std::vector<float> values;
  bool operator==(const output&) const = default;
};

std::vector<output> outputs_of(actors::session& s, uint64_t batches, uint64_t bytes) {
  std::vector<output> out;
  const auto keep = [&](const actors::evaluated_output& x) {
    out.push_back({x.batch, x.rank, {x.shape.begin(), x.shape.end()}, {x.values.begin(), x.values.end()}});
  };
  evaluated(s, {.batches = batches, .on_output = keep, .output_bytes = bytes});
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(outputs_alone_are_those_of_an_evaluation_with_losses) {
  const small_job job(tiny_llama);
  const auto s = job.open(common + cuts.front());
  const auto wanted = outputs_of(*s, 2, 0);
  std::vector<output> got;
  const auto keep = [&](const actors::evaluated_output& x) {
    got.push_back({x.batch, x.rank, {x.shape.begin(), x.shape.end()}, {x.values.begin(), x.values.end()}});
  };
  const auto report = evaluated(*s, {.batches = 2, .on_output = keep, .compute_loss = false});
  BOOST_TEST((got == wanted));
  BOOST_TEST(report.losses.empty());
  BOOST_TEST(report.loss == 0);
  BOOST_TEST(evaluated(*s, {.batches = 2}).losses.size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_evaluation_of_nothing_is_refused_and_the_session_goes_on) {
  const small_job job(tiny_llama);
  const auto s = job.open(common);
  const auto refusal = [&](const actors::evaluation_request& request) {
    const auto did = s->evaluate(request);
    return did ? std::string("accepted") : did.error().text;
  };
  BOOST_TEST(refusal({.compute_loss = false}) ==
             "evaluation: wanted compute_loss or on_output in evaluation_request, got neither");
  BOOST_TEST(refusal({.on_output = [](const auto&) {}, .output = "scores"}).starts_with("evaluation: wanted no name"));
  BOOST_TEST(evaluated(*s, {.batches = 1}).losses.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_evaluation_that_is_left_between_batches_has_no_loss_and_the_session_goes_on) {
  const small_job job;
  auto s = job.open({"parallel.data=2", "data.validation_fraction=0.5"});
  int batches = 0;
  const auto left = s->evaluate({.go_on = [&batches] { return batches++ < 2; }});
  BOOST_TEST_REQUIRE(left.has_value());
  BOOST_TEST(left->ended_early);
  BOOST_TEST(left->losses.size() == 2U);
  BOOST_TEST(left->loss == 0);
  const auto whole = s->evaluate(actors::evaluation_request{});
  BOOST_TEST_REQUIRE(whole.has_value());
  BOOST_TEST(!whole->ended_early);
  BOOST_TEST(whole->losses.size() > 2U);
  BOOST_TEST(whole->losses.front() == left->losses.front());
  BOOST_TEST(step_of(*s).step == 1U);
}

BOOST_AUTO_TEST_CASE(the_next_loss_is_that_of_the_next_step_which_it_leaves_as_it_was) {
  const small_job job;
  for (const settings& more : {settings{}, settings{"parallel.tensor=2"}}) {
    const auto s = job.open(more), twin = job.open(more);
    for (int i = 0; i < 3; ++i) {
      const auto next = s->next_loss();
      BOOST_TEST_REQUIRE(next.has_value());
      const auto step = step_of(*s);
      BOOST_TEST(std::abs(*next - step.loss) < 1e-5);
      BOOST_TEST(step.loss == step_of(*twin).loss);
    }
  }
  // All data ranks compute the same micro-batch, and attention ignores documents.
  for (const settings& more : {cuts.front(), settings{"data.document_mask=true"}}) {
    const auto next = job.open(common + more)->next_loss();
    BOOST_TEST_REQUIRE(next.has_value());
    BOOST_TEST(std::isfinite(*next));
  }
}

BOOST_AUTO_TEST_CASE(validation_sets_have_means_of_their_own_in_every_cut) {
  const small_job job(tiny_llama);
  const auto text = made_up_text(3000);
  job.folder().write("one.txt", text.substr(0, 700));
  job.folder().write("two.txt", text.substr(700));
  const auto path = [&](const char* name) { return (job.folder() / name).string(); };
  const settings sets = {"data.validation={one: " + path("one.txt") + ", two: {text: " + path("two.txt") + "}}"};
  const auto uncut = job.open(common + sets);
  BOOST_TEST(uncut->validation_sets() == (std::vector<std::string>{"", "one", "two"}),
             boost::test_tools::per_element());
  const auto loss_of = [](actors::session& s, const std::string& set) { return evaluated(s, {.set = set}).loss; };
  const double one = loss_of(*uncut, "one"), two = loss_of(*uncut, "two"), held_out = uncut->evaluate().value();
  BOOST_TEST((one != two && one != held_out));
  BOOST_TEST(job.open(common)->evaluate().value() == held_out);
  const auto alone = job.open(sets + settings{"parallel.data=2", "gradient_accumulation_steps=2"});
  BOOST_TEST(alone->evaluate().value() == one);
  for (const auto& each : cuts) BOOST_TEST_CONTEXT(each[0] << " " << each[1]) {
      const auto s = job.open(common + each + sets);
      BOOST_TEST(loss_of(*s, "two") == two);
      BOOST_TEST(loss_of(*s, "one") == one);
      BOOST_TEST(s->evaluate().value() == held_out);
    }
  const auto refused = uncut->evaluate(actors::evaluation_request{.set = "three"});
  BOOST_TEST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text ==
             "evaluation: wanted one of the validation sets of data.validation, one, two, got 'three'");
}

BOOST_AUTO_TEST_CASE(losses_are_those_of_the_uncut_run_whatever_number_is_asked_for) {
  const small_job job(tiny_llama);
  const auto uncut = job.open(common);
  const double untrained = uncut->evaluate().value();
  const auto first = step_of(*uncut), second = step_of(*uncut);
  const auto all = evaluated(*uncut, {});
  // The 25 windows are six micro-batches of 2 x 2 and one of a single window.
  BOOST_TEST_REQUIRE(all.losses.size() == 7U);
  BOOST_TEST(all.loss != untrained);
  double sum = 0;
  for (const double loss : all.losses) sum += loss * (loss == all.losses.back() ? 0.25 : 1);
  BOOST_TEST(all.loss == sum / 6.25, boost::test_tools::tolerance(1e-14));
  for (const auto& each : cuts) BOOST_TEST_CONTEXT(each[0] << " " << each[1]) {
      const auto s = job.open(common + each);
      BOOST_TEST(s->evaluate().value() == untrained);
      BOOST_TEST(step_of(*s).loss == first.loss);
      BOOST_TEST(step_of(*s).loss == second.loss);
      const auto got = evaluated(*s, {});
      BOOST_TEST(got.losses == all.losses, boost::test_tools::per_element());
      BOOST_TEST(got.loss == all.loss);
      for (const uint64_t n : {1, 3, 5}) BOOST_TEST_CONTEXT("n " << n)
      BOOST_TEST(evaluated(*s, {.batches = n}).losses == std::vector(all.losses.begin(), all.losses.begin() + long(n)),
                 boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(every_window_counts_once_whatever_the_batch_and_the_number_of_ranks) {
  const small_job job(tiny_llama, made_up_text(4970));  // the held-out tokens, 497 of 4970, are 31 windows
  const auto loss_of = [&](const std::string& rows, const std::string& ranks, const settings& more) {
    const settings batch = {"data.validation_fraction=0.1", "train_micro_batch_size_per_gpu=" + rows,
                            "parallel.data=" + ranks};
    return job.open(batch + more)->evaluate().value();
  };
  const double wanted = loss_of("1", "1", {});
  const auto near = boost::test_tools::tolerance(2e-6);
  for (const auto& [rows, ranks] : {std::pair("20", "1"), {"10", "2"}, {"31", "1"}, {"7", "5"}, {"1", "20"}})
    BOOST_TEST(loss_of(rows, ranks, {}) == wanted, near << rows << " x " << ranks);
  for (const char* cut : {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence=2", "parallel.context=2"})
    for (const auto& [rows, ranks] : {std::pair("20", "1"), {"4", "3"}})
      BOOST_TEST(loss_of(rows, ranks, {cut}) == wanted, near << cut << ", " << rows << " x " << ranks);
}

BOOST_AUTO_TEST_CASE(outputs_of_ranks_without_windows_are_not_handed_over) {
  const small_job job(tiny_llama);
  // The 25 held-out windows are 4 batches of 3 ranks x 2 windows, and one batch of a single window.
  const auto s = job.open({"data.validation_fraction=0.1", "parallel.data=3"});
  const auto got = outputs_of(*s, 0, 0);
  BOOST_TEST_REQUIRE(got.size() == 4U * 3 + 1);
  BOOST_TEST(got.back().rank == 0U);
  BOOST_TEST(got.back().shape == (std::vector<int64_t>{1, 16, 96}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_batch_of_fewer_rows_goes_through_all_stages) {
  const small_job job(tiny_llama);
  const settings one_window = {"data.validation_fraction=0.005", "parallel.data=2"};
  const double wanted = job.open(one_window)->evaluate().value();
  for (const auto& each : cuts) BOOST_TEST(job.open(one_window + each)->evaluate().value() == wanted);
}

BOOST_AUTO_TEST_CASE(outputs_are_those_of_the_uncut_run_batch_by_batch) {
  const small_job job(tiny_llama);
  const auto uncut = job.open(common);
  const auto wanted = outputs_of(*uncut, 5, UINT64_MAX);
  const auto losses = evaluated(*uncut, {.batches = 5}).losses;
  BOOST_TEST_REQUIRE(wanted.size() == 10U);
  for (size_t i = 0; i < wanted.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(wanted[i].batch == i / 2);
    BOOST_TEST(wanted[i].rank == i % 2);
    BOOST_TEST(wanted[i].shape == (std::vector<int64_t>{2, 16, 96}), boost::test_tools::per_element());
    BOOST_TEST(wanted[i].values.size() == 2U * 16 * 96);
  }
  for (const auto& each : cuts) {
    const auto s = job.open(common + each);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{60'000}, UINT64_MAX})
      BOOST_TEST((outputs_of(*s, 5, bytes) == wanted), each[0] << " " << each[1] << ", " << bytes << " bytes");
    BOOST_TEST(evaluated(*s, {.batches = 5}).losses == losses, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_a_host_throws_leaves_the_evaluation_and_the_run_continues) {
  const small_job job(tiny_llama);
  for (const auto& each : {common, common + cuts.front()}) {
    const auto s = job.open(each);
    const auto refuse = [](const actors::evaluated_output&) { throw std::runtime_error("enough"); };
    BOOST_CHECK_THROW((void)s->evaluate({.on_output = refuse}), std::runtime_error);
    BOOST_TEST(step_of(*s).step == 1U);
    BOOST_TEST(evaluated(*s, {}).losses.size() == 7U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
