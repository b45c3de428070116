// Tests data.document_mask in whole runs: it changes the results, and sharding changes no bit of them.
#include "tests/parity/document_lines.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(document_mask)

using namespace troupe;
using namespace troupe::tests;

namespace {

void check_model(const std::string& model, const settings& common) {
  const small_job job(model);
  job.folder().write("lines.jsonl", document_lines());
  const settings all = common + settings{"data.text=" + (job.folder() / "lines.jsonl").string(), "parallel.data=2"};
  const settings masked = all + settings{"data.document_mask=true"};
  const auto reference = train(job, masked, 4);
  BOOST_TEST(reference.losses[0] != train(job, all, 1).losses[0]);
  const settings sharded = {"zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=0",
                            "zero_optimization.stage3_max_reuse_distance=0"};
  check_same(train(job, masked + sharded, 4), reference);
  check_same(train(job, masked + sharded + settings{"activation_checkpointing.enabled=true"}, 4), reference);
  check_same(train(job, masked + settings{"zero_optimization.stage=2"}, 4), reference);
}

/// Checks that sequence and context ranks, which have only some of a row's tokens, mask by the documents of the whole
/// row.
void check_sequence_groups(const std::string& model) {
  const small_job job(model);
  job.folder().write("lines.jsonl", document_lines());
  const settings masked = {"data.text=" + (job.folder() / "lines.jsonl").string(), "data.document_mask=true",
                           "data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5"};
  const auto reference = train(job, masked, 4, first_gradients::read);
  for (const std::string degree : {"sequence=2", "sequence=4", "context=2", "context=4"}) {
    const auto cut = train(job, masked + settings{"parallel." + degree}, 4, first_gradients::read);
    check_near(cut, reference, 1e-12);
    check_gradients(cut, reference, 1e-12);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(sequence_groups_train_the_uncut_model) {
  check_sequence_groups(tiny_gpt2_with_dropout);
  check_sequence_groups(tiny_llama);
}

BOOST_AUTO_TEST_CASE(gpt2_with_dropout_and_llama_keep_their_bits_at_every_stage) {
  check_model(tiny_gpt2_with_dropout, {});
  check_model(tiny_llama, {"bf16.enabled=true"});
}

BOOST_AUTO_TEST_SUITE_END()
