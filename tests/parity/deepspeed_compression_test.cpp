// Compares ten losses of each compression technique, enabled at step 3, and the final masks, with DeepSpeed 0.19.6, by
// the fixture of tests/peer/make_compressed_training_fixture.py: the same `compression_training` section, weights and
// batches. Where the two differ on purpose, a comment describes the difference.
#include <cmath>

#include "actors/aten_threads.hpp"
#include "actors/session/session.hpp"
#include "checkpoint/commit/commit.hpp"
#include "kernels/compress/pruning.hpp"
#include "kernels/compress/weight_mask.hpp"
#include "tests/parity/compressed_by_the_peer.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed_compression)

using namespace troupe;
using namespace troupe::tests;

namespace {

const json& fixture() {
  static const json all = peers_fixture("compressed_training.json");
  return all;
}

/// Returns settings of two ranks with two micro-batches at stage 3. One step covers all windows of the text.
settings common() {
  const auto& a = fixture()["adamw"];
  return {"parallel.data=2",
          "gradient_accumulation_steps=2",
          "zero_optimization.stage=3",
          "gradient_clipping=0",
          "data.sequence_length=" + fixture()["columns"].dump(),
          "optimizer.params=" + a.dump()};
}
const settings in_fp64 = {"data_types.param_dtype=fp64"};

peers_job the_job() { return peers_job(fixture()["text"].get<std::string>()); }

void check_losses(actors::session& s, const json& wanted, double tolerance) {
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double loss = step_of(s).loss, theirs = wanted[i];
    worst = std::max(worst, std::abs(loss / theirs - 1));
    BOOST_TEST(std::abs(loss - theirs) <= tolerance, "step " << i << ": " << loss << " for " << theirs);
  }
  BOOST_TEST_MESSAGE("losses differ by " << worst << " at most");
}

std::string text_of(std::span<const uint8_t> keep) {
  std::string out;
  for (const auto x : keep) out += x != 0 ? '1' : '0';
  return out;
}

/// Maps "MODULE TECHNIQUE" to the mask's elements, written as 0 and 1.
using masks = std::map<std::string, std::string>;

/// Returns the masks of a run's initial weights. The run is in fp32, because fp64 runs cannot be saved.
masks masks_at_the_start(const peers_job& job, const json& run) {
  masks out;
  const auto at = saved(job, *job.begin(common() + section_of(run)), run);
  const auto opened = checkpoint::open_checkpoint(storage::real_files(), at);
  BOOST_TEST_REQUIRE(opened.has_value());
  for (const auto& m : opened->content.run.masks) {
    std::vector<uint8_t> keep(m.elements);
    for (size_t i = 0; i < keep.size(); ++i) keep[i] = kernels::is_kept(m.bits, i);
    out[m.module + " " + m.technique] = text_of(keep);
  }
  return out;
}

/// Returns the masks that the current scores of a run result in.
masks masks_of_scores(const actors::session& s, const json& run) {
  masks out;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    const std::string& name = s.table().parameters[q].name;
    for (const auto part : {job::pruned_part::elements, job::pruned_part::rows, job::pruned_part::heads}) {
      const std::string end = job::score_name("", part), technique(job::name_of(part));
      if (!name.ends_with(end)) continue;
      const auto& groups = run["compression_training"][technique]["different_groups"];
      const auto scores = parameter_of(s, q);
      std::vector<uint8_t> keep(scores.size());
      kernels::keep_largest(scores, kernels::kept_of(groups["all"]["params"]["dense_ratio"], scores.size()).value(),
                            keep);
      out[name.substr(0, name.size() - end.size()) + " " + technique] = text_of(keep);
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_technique_has_the_peers_losses_and_masks_from_the_step_that_it_begins_at) {
  const actors::one_aten_thread alone;
  const auto job = the_job();
  BOOST_TEST_REQUIRE(fixture()["runs"].size() == 16U);
  for (const auto& run : fixture()["runs"]) BOOST_TEST_CONTEXT(run["name"]) {
      const auto s = job.begin(common() + in_fp64 + section_of(run));
      check_losses(*s, run["losses"], 1e-6);
      auto ours = masks_of_scores(*s, run);
      ours.merge(masks_at_the_start(job, run));
      const auto theirs = run.value("masks", masks());
      BOOST_TEST((ours == theirs));
    }
}

// DeepSpeed updates its range before each product, on each rank by itself. Troupe quantises with the range after the
// previous update, and updates it once at the end of the step from the inputs of all ranks. The fixture has DeepSpeed's
// arithmetic in Troupe's order, whose losses must be equal, and in DeepSpeed's own order, whose losses differ.
BOOST_AUTO_TEST_CASE(learned_ranges_follow_the_peers_rule_once_a_step_for_all_ranks) {
  const actors::one_aten_thread alone;
  const auto job = the_job();
  const size_t first = fixture()["offset"];
  for (const auto& run : fixture()["static"]) BOOST_TEST_CONTEXT(run["name"]) {
      check_losses(*job.begin(common() + in_fp64 + section_of(run)), run["losses"], 1e-6);
      BOOST_TEST(run["losses"][first] == fixture()["plain"][first]);
      BOOST_TEST(std::abs(run["peers"][first].get<double>() - run["losses"][first].get<double>()) > 1e-5);
    }
}

// Masks need no fp64, because their values are not rounded to a quantisation grid.
BOOST_AUTO_TEST_CASE(pruned_runs_have_the_peers_losses_in_fp32) {
  const actors::one_aten_thread alone;
  const auto job = the_job();
  size_t compared = 0;
  for (const auto& run : fixture()["runs"]) {
    if (run["compression_training"].contains("weight_quantization") || !run.contains("masks")) continue;
    BOOST_TEST_CONTEXT(run["name"]) { check_losses(*job.begin(common() + section_of(run)), run["losses"], 1e-6); }
    ++compared;
  }
  BOOST_TEST(compared == 5U);
}

BOOST_AUTO_TEST_CASE(pruning_by_l1_begins_without_an_end_and_lasts) {
  BOOST_TEST(fixture()["error_without_an_end"] == "KeyError: 'schedule_offset_end'");  // DeepSpeed's error at step 3
  const actors::one_aten_thread alone;
  const auto job = the_job();
  for (const auto& run : fixture()["runs"]) {
    if (run["name"] != "sparse by l1") continue;
    const auto& shared = run["compression_training"]["sparse_pruning"]["shared_parameters"];
    BOOST_TEST(!shared.contains("schedule_offset_end"));
    check_losses(*job.begin(common() + in_fp64 + section_of(run)), run["losses"], 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_model_of_some_layers_begins_and_learns_as_the_peers_student) {
  const actors::one_aten_thread alone;
  const small_job job(
      std::string("model: {model_type: gpt2, n_layer: 2, n_embd: 8, n_head: 2, n_positions: 16, vocab_size: 48, "
                  "embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0, teacher: ") +
          troupe::places::source_dir + "/tests/parity/fixtures/teacher}\n",
      fixture()["text"].get<std::string>());
  const auto& run = fixture()["reduced"];
  check_losses(*job.open(common() + in_fp64 + section_of(run)), run["losses"], 1e-6);
  check_losses(*job.open(common() + section_of(run)), run["losses"], 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
