// Tests a host program's attention and MLP modules over tensor ranks: losses, weights and evaluation equal those of the
// unsharded modules up to rounding, and are bit-identical at every ZeRO stage and in a pipeline.
#include <fmt/format.h>

#include "tests/parity/own_blocks.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(own_model_tensor)

using namespace troupe;
using namespace troupe::tests;

namespace {

actors::host_model blocks(double dropout = 0) {
  return {[dropout] { return models::inject(host_blocks(dropout), block_policy()); }, &block_batch, &block_batch};
}

/// Returns a model whose head and loss are sharded over the vocabulary, so that no rank has a whole row of logits.
actors::host_model blocks_of_columns() {
  auto out = blocks(0.2);
  out.make = [] {
    auto model = host_blocks(0.2);
    model.loss = models::vocabulary_cross_entropy{.ignore_index = 5};
    return models::inject(std::move(model), block_policy());
  };
  return out;
}

/// Returns a model in which every unit has its own factory; the head reads the weight of unit "words".
actors::host_model blocks_by_factories(const models::loss_function& loss = host_blocks().loss) {
  const auto make = [loss] {
    using models::unit;
    const auto words = models::shared("words", [] { return torch::nn::Embedding(block_vocabulary, block_width); });
    models::module_model out{
        {unit("words", words), unit("attention 0", [] { return std::make_shared<host_attention>(); }),
         unit("mlp 0", [] { return std::make_shared<host_mlp>(); }),
         unit("head", words,
              [](torch::nn::EmbeddingImpl& m, const at::Tensor& x) { return x.matmul(m.weight.t()) * 0.5; })},
        loss};
    return models::inject(std::move(out), block_policy());
  };
  return {make, &block_batch, &block_batch};
}

/// Returns a model whose MLPs are not sharded: all tensor ranks compute the same.
actors::host_model blocks_with_whole_mlps() {
  auto out = blocks();
  out.make = [] {
    auto policy = block_policy();
    std::erase_if(policy.rules, [](const auto& rule) { return rule.pattern.starts_with("mlp"); });
    return models::inject(host_blocks(), policy);
  };
  return out;
}

std::vector<actors::host_model> all_blocks() {
  return {blocks(0.2), blocks_of_columns(), blocks_by_factories(),
          blocks_by_factories(models::vocabulary_cross_entropy())};
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses_and_weights_are_those_of_the_uncut_modules) {
  for (const auto& model : all_blocks())
    for (const auto& [type, most] : {std::pair{"fp64", 1e-11}, std::pair{"fp32", 1e-5}}) {
      const settings common = {"gradient_accumulation_steps=2", std::string("data_types.param_dtype=") + type};
      const outcome whole = train_own(model, common);
      BOOST_TEST(whole.trained.losses.front() != whole.trained.losses.back());
      for (const int degree : {2, 3}) BOOST_TEST_CONTEXT(type << ", tensor " << degree)
      check_uncut(train_own(model, common + ranks(degree)), whole, most);
    }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_and_pipeline_has_the_same_bits) {
  for (const auto& model : all_blocks()) {
    const settings common = ranks(2) + settings{"parallel.data=2", "gradient_accumulation_steps=4",
                                                "gradient_order=per_step", "tied_gradients=per_use"};
    const outcome reference = train_own(model, common + stage(0));
    for (const auto& cut : {stage(1), stage(2), stage(3), stage(3) + settings{"activation_checkpointing.enabled=true"},
                            stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
                            stage(1) + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"}})
      BOOST_TEST_CONTEXT(text_of(common + cut)) {
        const outcome got = train_own(model, common + cut);
        check_same(got.trained, reference.trained);
        BOOST_TEST(got.evaluation == reference.evaluation);
      }
  }
}

BOOST_AUTO_TEST_CASE(masks_of_weights_that_ranks_have_shares_of_are_those_of_the_uncut_modules) {
  const auto pruned = [](const std::string& technique, const std::string& method, const std::string& module) {
    const std::string section = "compression_training." + technique + ".";
    return settings{section + "shared_parameters.enabled=true", section + "shared_parameters.method=" + method,
                    section + "shared_parameters.schedule_offset=1",
                    section + "different_groups.all.params.dense_ratio=0.5",
                    section + "different_groups.all.modules=['" + module + "']"};
  };
  const settings common = settings{"gradient_accumulation_steps=2"} + pruned("sparse_pruning", "l1", "qkv|down") +
                          pruned("row_pruning", "topk", "up");
  const settings wide = common + settings{"data_types.param_dtype=fp64"};
  for (const auto& model : all_blocks()) {
    const outcome whole = train_own(model, wide);
    for (const int degree : {2, 3}) BOOST_TEST_CONTEXT("tensor " << degree)
    check_uncut(train_own(model, wide + ranks(degree)), whole, 1e-11);
    const settings cut = common + ranks(2) + settings{"parallel.data=2", "gradient_order=per_step"};
    const outcome reference = train_own(model, cut + stage(1));
    check_same(train_own(model, cut + stage(3)).trained, reference.trained);
  }
}

// Two units use the tied weight, which is one matrix; one rank updates a matrix that all ranks hold.
BOOST_AUTO_TEST_CASE(matrices_of_muon_are_whole_and_columns_of_zenflow_a_shares) {
  const settings common = {"gradient_accumulation_steps=2", "gradient_order=per_step", "tied_gradients=per_use"};
  const settings muon = {"optimizer.type=Muon"};
  auto models = all_blocks();
  models.push_back(blocks_with_whole_mlps());
  for (const auto& model : models) {
    const settings wide = common + muon + settings{"data_types.param_dtype=fp64"};
    const outcome whole = train_own(model, wide);
    for (const int degree : {2, 3}) BOOST_TEST_CONTEXT("tensor " << degree)
    check_uncut(train_own(model, wide + ranks(degree) + stage(degree)), whole, 1e-11);
    const std::string late = "zero_optimization.zenflow.";
    const settings zenflow = {"zero_optimization.offload_optimizer.device=cpu", late + "topk_ratio=0.2",
                              late + "update_interval=2", late + "select_strategy=step", late + "select_interval=2"};
    for (const auto& optimizer : {muon, zenflow}) {
      const settings cut = common + optimizer + ranks(2) + settings{"parallel.data=2"};
      const outcome reference = train_own(model, cut + stage(1));
      for (const auto& other : {stage(3), stage(2) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"}})
        BOOST_TEST_CONTEXT(text_of(cut + other)) {
          check_same(train_own(model, cut + other).trained, reference.trained);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_partition_config_says_how_a_hosts_layers_are_cut) {
  const auto plain = [](bool with_policy) -> actors::host_model {
    return {[with_policy] { return with_policy ? models::inject(host_blocks(), block_policy()) : host_blocks(); },
            &block_batch, &block_batch};
  };
  const settings specs = {
      "tensor_parallel.partition_config={layer_specs: [{patterns: ['attention .*\\.qkv'], shape: [[24, 24, 24], -1]}, "
      "{patterns: ['mlp .*\\.up'], partition_type: column}, "
      "{patterns: ['.*\\.(proj|down)\\.weight$'], partition_type: row}, "
      "{patterns: ['words', 'head'], gather_output: true}]}"};
  const settings two = ranks(2) + settings{"gradient_accumulation_steps=2"};
  const outcome by_policy = train_own(plain(true), two);
  check_same(train_own(plain(false), two + specs).trained, by_policy.trained);
  check_same(train_own(plain(true), two + specs + stage(3) + settings{"gradient_order=per_step"}).trained,
             train_own(plain(true), two + stage(3) + settings{"gradient_order=per_step"}).trained);
  const auto refusal = [&](const settings& more) {
    const auto s = try_open_own(two + more, plain(false));
    BOOST_TEST_REQUIRE(!s.has_value());
    return s.error().text;
  };
  const auto has = [&](const settings& more, const std::string& part) {
    const std::string text = refusal(more);
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  const std::string key = "tensor_parallel.partition_config=";
  has({"tensor_parallel.preset_model=llama"}, "injection: wanted a layer that '(?:.*[. ])?(?:self_attn\\.q_proj|");
  has({"tensor_parallel.preset_model=mixtral"},
      "tensor_parallel.preset_model: wanted a preset of a model without experts, got mixtral: ");
  has({key + "{layer_specs: [{patterns: ['mlp .*up']}]}"}, "injection: wanted a row layer to match the column");
  has({key + "{layer_specs: [{patterns: ['mlp .*up'], shape: [3, -1]}]}"}, "shape: wanted the sizes of a column layer");
  has({key + "{layer_specs: [{patterns: ['nothing']}]}"}, "injection: wanted a layer that '(?:nothing)' matches");
}

BOOST_AUTO_TEST_CASE(modules_that_declare_no_cut_are_refused_and_one_rank_needs_none) {
  auto plain = blocks();
  plain.make = [] { return host_blocks(); };
  const auto refused = try_open_own(ranks(2), plain);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("parallel.tensor: the host program's model declares no tensor cut "
                                       "(models::inject); declare one or set it to 1, got 2") != std::string::npos);
  const outcome with = train_own(blocks(), {}), without = train_own(plain, {});
  check_same(with.trained, without.trained);
}

BOOST_AUTO_TEST_CASE(a_run_saved_over_some_tensor_ranks_resumes_over_others) {
  const scratch_folder folder;
  const std::vector<settings> cuts = {ranks(1) + stage(1), ranks(2) + stage(3), ranks(3) + stage(0),
                                      ranks(2) + stage(1) + settings{"parallel.pipeline=2"}};
  const auto model = blocks_of_columns();
  for (size_t i = 0; i < cuts.size(); ++i) {
    const settings common = {"gradient_accumulation_steps=2", "gradient_order=per_step", "tied_gradients=per_use"};
    auto s = open_own(common + cuts[i], model);
    step_of(*s);
    const auto saved = s->save({.root = folder / fmt::to_string(i)});
    BOOST_TEST_REQUIRE(saved.has_value(), (saved ? "" : saved.error().text));
    std::vector<std::vector<float>> weights, moments;
    for (uint32_t q = 0; q < s->table().parameters.size(); ++q) {
      weights.push_back(parameter_of(*s, q));
      moments.push_back(moment_of(*s, q, 1));
    }
    const auto wanted = result_of(*s, 2);
    for (size_t j = 0; j < cuts.size(); ++j) BOOST_TEST_CONTEXT(text_of(cuts[i]) << " to " << text_of(cuts[j])) {
        auto t = actors::session::open(
            {.config = own_config(common + cuts[j]), .resume = *saved, .model = actors::own_model(model)});
        BOOST_TEST_REQUIRE(t.has_value(), (t ? std::string() : t.error().text));
        for (uint32_t q = 0; q < weights.size(); ++q) {
          BOOST_TEST(same_bits({parameter_of(**t, q)}, {weights[q]}));
          BOOST_TEST(same_bits({moment_of(**t, q, 1)}, {moments[q]}));
        }
        const auto got = result_of(**t, 2);
        if (i == j) check_same(got, wanted);
        for (size_t k = 0; k < 2; ++k) BOOST_TEST_CONTEXT("k " << k)
        BOOST_TEST(std::abs(number(got.losses[k]) / number(wanted.losses[k]) - 1) <= 1e-5);
      }
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bit_runs_have_one_tensor_degrees_bits_and_train) {
  for (const settings& type :
       {settings{"bf16.enabled=true"}, settings{"fp16.enabled=true", "fp16.initial_scale_power=8"}}) {
    const settings common = type + ranks(2) +
                            settings{"parallel.data=2", "gradient_accumulation_steps=2", "gradient_order=per_step",
                                     "tied_gradients=per_use"};
    const outcome reference = train_own(blocks_of_columns(), common + stage(0));
    BOOST_TEST(number(reference.trained.losses.back()) < number(reference.trained.losses.front()));
    check_same(train_own(blocks_of_columns(), common + stage(3)).trained, reference.trained);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_hands_out_whole_scores_once_for_each_data_rank) {
  for (const auto& model : {blocks(), blocks_of_columns()}) {
    std::vector<std::vector<float>> outputs[2];
    std::vector<double> losses[2];
    for (const int degree : {1, 2}) {
      BOOST_TEST_INFO_SCOPE("degree " << degree);
      auto s = open_own(ranks(degree) + settings{"parallel.data=2"}, model);
      step_of(*s);
      const auto keep = [&](const actors::evaluated_output& x) {
        BOOST_TEST((std::vector(x.shape.begin(), x.shape.end()) ==
                    std::vector<int64_t>{own_rows, own_columns, block_vocabulary}));
        outputs[degree - 1].emplace_back(x.values.begin(), x.values.end());
      };
      const auto got = s->evaluate({.batches = 2, .on_output = keep});
      BOOST_TEST_REQUIRE(got.has_value());
      losses[degree - 1] = got->losses;
    }
    BOOST_TEST_REQUIRE(outputs[1].size() == outputs[0].size());
    for (size_t i = 0; i < outputs[0].size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const std::vector<double> a(outputs[0][i].begin(), outputs[0][i].end()),
          b(outputs[1][i].begin(), outputs[1][i].end());
      BOOST_TEST(relative_difference(b, a) <= 1e-5);
    }
    for (size_t i = 0; i < losses[0].size(); ++i) BOOST_TEST(std::abs(losses[1][i] / losses[0][i] - 1) <= 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(trained_weights_go_back_into_whole_modules) {
  auto s = open_own(ranks(2) + stage(3), blocks());
  step_of(*s);
  const auto copy = host_blocks();
  BOOST_REQUIRE(actors::copy_weights(*s, copy));
  for (size_t q = 0, u = 0; u < copy.units.size(); ++u)
    for (const auto& p : copy.units[u].module->parameters()) {
      const auto wanted = parameter_of(*s, static_cast<uint32_t>(q++));
      BOOST_TEST(at::equal(p.detach().reshape({-1}), at::tensor(wanted)));
    }
}

BOOST_AUTO_TEST_SUITE_END()
