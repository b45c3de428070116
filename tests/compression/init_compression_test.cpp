// Tests a host program's own attention and MLP modules that are quantised under tensor parallelism, pipeline stages and
// sharding, with the layers that are injected: they have the bits of one stage and one shard, and the values of one
// tensor-parallel rank. Also tests known model types.
#include "compression/init_compression.hpp"

#include "compression/redundancy_clean.hpp"
#include "tests/check_ok.hpp"
#include "tests/parity/own_blocks.hpp"

BOOST_AUTO_TEST_SUITE(init_compression)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string weights = "compression_training.weight_quantization.";

settings quantised(const std::string& bits, const std::string& offset, const std::string& modules) {
  return {weights + "shared_parameters.enabled=true",
          weights + "shared_parameters.quantize_weight_in_forward=true",
          weights + "shared_parameters.schedule_offset=" + offset,
          weights + "different_groups.all.params.start_bits=8",
          weights + "different_groups.all.params.target_bits=" + bits,
          weights + "different_groups.all.modules=" + modules};
}

/// Returns factories of the blocks, with the partition policy and Troupe's norms; the stages of a pipeline build their
/// blocks with them.
actors::host_model blocks() {
  return {[] { return models::inject(host_blocks(0.1), block_policy()); }, &block_batch, &block_batch};
}
/// Returns factories of the blocks without a policy that states how they are cut.
actors::host_model plain() {
  return {[] { return host_blocks(0.1); }, &block_batch, &block_batch};
}

outcome train(const actors::host_model& model, const settings& set) {
  auto ready = check_ok(compression::init_compression(model, own_config(set)));
  auto s = check_ok(actors::session::open(std::move(*ready)));
  outcome out{result_of(**s, steps)};
  const auto loss = check_ok((*s)->evaluate(2));
  out.evaluation = *loss;
  return out;
}

const settings common = {"gradient_accumulation_steps=2", "gradient_order=per_step"};
const settings ours = {"tensor_parallel.replace_with_kernel_inject=true"};
const std::string all = "['*']";

}  // namespace

BOOST_AUTO_TEST_CASE(quantised_modules_run_in_a_pipeline_over_tensor_ranks_and_shards_with_injected_layers) {
  const settings four_bits = quantised("4", "1", all);
  const outcome whole = train(blocks(), common + four_bits);
  BOOST_TEST(whole.trained.losses[1] != train_own(blocks(), common).trained.losses[1]);
  const outcome cut = train(blocks(), common + four_bits + ranks(2) + stage(0));
  check_uncut(cut, whole, 1e-5);
  for (const auto& place : {stage(3), stage(1) + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"},
                            stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"}})
    BOOST_TEST_CONTEXT(text_of(place)) {
      check_same(train(blocks(), common + four_bits + ranks(2) + place).trained, cut.trained);
    }
}

BOOST_AUTO_TEST_CASE(every_way_to_inject_computes_with_the_quantised_weights) {
  const settings three_bits = quantised("3", "0", "[qkv, proj, up, down]");
  const outcome whole = train(plain(), common + three_bits);
  for (const settings& way : {settings{"tensor_parallel.autotp_size=2"},
                              ranks(2) + settings{"tensor_parallel.injection_policy_tuple=[proj, down]"},
                              settings{"tensor_parallel.autotp_size=2"} + ours, ours})
    BOOST_TEST_CONTEXT(text_of(way)) {
      const outcome here = train(plain(), common + three_bits + way + stage(0));
      check_uncut(here, whole, 1e-5);
      check_same(train(plain(), common + three_bits + way + stage(3) + settings{"parallel.pipeline=2"}).trained,
                 here.trained);
    }
}

BOOST_AUTO_TEST_CASE(what_ranks_of_a_pipeline_and_shards_have_trained_is_cleaned_whole) {
  auto ready = check_ok(compression::init_compression(
      blocks(),
      own_config(common + quantised("4", "1", "[up, down]") + ranks(2) + stage(3) + settings{"parallel.pipeline=2"})));
  auto s = check_ok(actors::session::open(std::move(*ready)));
  for (int i = 0; i < 3; ++i) step_of(**s);
  const auto evaluated = check_ok((*s)->evaluate(1));
  const models::module_model mine = host_blocks();
  const auto cleaned = check_ok(compression::redundancy_clean(mine, **s));
  BOOST_TEST(cleaned->modules.size() == 4U);
  const at::NoGradGuard no_grad;
  const auto batch = block_batch(0, 0, 0);
  at::Tensor x = batch.input;
  for (const auto& u : mine.units) x = u.forward(x);
  const at::Tensor loss = mine.loss(x, batch.target).to(at::kDouble).contiguous();
  BOOST_TEST(*loss.const_data_ptr<double>() == *evaluated, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_family_is_checked_by_its_configuration) {
  const small_job job;
  const auto opened = [&](const settings& set) {
    auto ready = compression::init_compression(job.config(set));
    if (!ready) return ready.error().text;
    auto s = actors::session::open(std::move(*ready));
    return s ? std::string("opened") : s.error().text;
  };
  const std::string rows = "compression_training.row_pruning.";
  const settings pruned = {rows + "shared_parameters.enabled=true", rows + "different_groups.mlp.modules=[c_fc]",
                           rows + "different_groups.mlp.params.dense_ratio=0.5"};
  BOOST_TEST(opened(quantised("4", "0", "[attn, mlp]")) == "opened");
  BOOST_TEST(opened(pruned + settings{rows + "different_groups.mlp.related_modules=[['mlp.c_proj']]"}) == "opened");
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(has(opened(pruned + settings{rows + "different_groups.mlp.related_modules=[['attn.c_proj']]"}),
                 "wanted a module that takes the 128 rows of transformer.h.0.mlp.c_fc"));
  BOOST_TEST(has(opened({}), "init_compression requires an enabled technique"));
}

BOOST_AUTO_TEST_SUITE_END()
