// Tests dropout: masks depend on their key and not on how a batch is split, and backward uses forward's mask.
#include <boost/test/unit_test.hpp>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(dropout)

namespace {

const std::string json =
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 24, "n_head": 3, "n_positions": 200, "vocab_size": 20,
        "resid_pdrop": 0.3, "embd_pdrop": 0.2, "attn_pdrop": 0.4})";

/// Returns the hidden state that the head receives.
at::Tensor hidden_of(bound_model& m, const micro_batch& batch) {
  at::Tensor hidden;
  const auto& units = m.model->table().units;
  for (uint32_t u = 0; u + 1 < units.size(); ++u)
    for (uint32_t s = 0; s < units[u].segments.size(); ++s)
      hidden = m.model->forward(u, s, batch, hidden, m.binding)->output();
  return hidden;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_sample_has_the_same_bits_alone_and_among_others) {
  bound_model m(json, core::dtype::f32, 3, 150);
  owned_batch data(3, 150, 20);
  const at::Tensor together = hidden_of(m, data.batch);
  for (uint64_t row = 0; row < 3; ++row) {
    micro_batch one = data.batch;
    one.tokens = one.tokens.subspan(row * 151, 151);
    one.samples = one.samples.subspan(row, 1);
    one.rows = 1;
    BOOST_TEST(hidden_of(m, one).select(0, 0).equal(together.select(0, static_cast<int64_t>(row))));
  }
}

BOOST_AUTO_TEST_CASE(every_part_of_the_key_changes_the_masks) {
  bound_model m(json, core::dtype::f32, 1, 16);
  owned_batch data(1, 16, 20);
  const at::Tensor base = hidden_of(m, data.batch);
  BOOST_TEST(base.equal(hidden_of(m, data.batch)));
  micro_batch other = data.batch;
  other.seed += 1;
  BOOST_TEST(!base.equal(hidden_of(m, other)));
  other = data.batch;
  other.step += 1;
  BOOST_TEST(!base.equal(hidden_of(m, other)));
  other = data.batch;
  const std::vector<uint64_t> samples{999};
  other.samples = samples;
  BOOST_TEST(!base.equal(hidden_of(m, other)));
  other.training = false;
  const at::Tensor undropped = hidden_of(m, other);
  BOOST_TEST(!base.equal(undropped));
  other.samples = {};
  BOOST_TEST(undropped.equal(hidden_of(m, other)));
}

BOOST_AUTO_TEST_CASE(the_embedding_drops_its_share_and_scales_the_rest) {
  bound_model m(json, core::dtype::f32, 2, 200);
  owned_batch data(2, 200, 20);
  const at::Tensor dropped = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  data.batch.training = false;
  const at::Tensor whole = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
  const double zeros = static_cast<double>(dropped.eq(0).sum().item<int64_t>()) / static_cast<double>(dropped.numel());
  BOOST_TEST(std::abs(zeros - 0.2) < 0.02);
  const at::Tensor kept = dropped.ne(0);
  BOOST_TEST(dropped.masked_select(kept).allclose(whole.masked_select(kept).mul(1.25)));
}

BOOST_AUTO_TEST_CASE(a_batch_without_sample_numbers_is_refused) {
  bound_model m(json, core::dtype::f32, 2, 16);
  owned_batch data(2, 16, 20);
  data.batch.samples = data.batch.samples.first(1);
  BOOST_CHECK_THROW(m.model->forward(0, 0, data.batch, {}, m.binding), c10::Error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
